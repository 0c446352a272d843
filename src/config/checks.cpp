#include "config/checks.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/suggest.h"
#include "kolo/nn/loss.h"

namespace kolo {

namespace {

class Checks {
 public:
  Checks(const RunConfig& config, const ConfigValue& root) : config_(config), root_(root) {}

  void run() const {
    check_data();
    check_model();
    check_optimizer();
    check_learning_rate();
    check_loss();
    check_checkpoint();
  }

 private:
  [[noreturn]] void fail(std::string_view key, std::string_view reason) const {
    throw InputError(fmt::format("{}: {}: {}", place_of(root_, key), key, reason));
  }

  void check_data() const {
    const auto& data = config_.data;
    const auto& entry = dataset_entry(data.name);
    entry.check(data.own, of_section("data"));
    if (!data.n_train && !entry.needs_n_train.empty()) fail("data.n_train", entry.needs_n_train);
    if (!data.n_valid && !entry.needs_n_valid.empty()) fail("data.n_valid", entry.needs_n_valid);
  }

  void check_model() const {
    const auto& model = config_.model;
    check_shape("model.input_shape", model.input_shape);
    if (model.name == "torchscript" && model.file.empty()) {
      fail("model.file",
           "model torchscript needs the file that torch.jit.script(...).save() wrote");
    }
    if (model.name != "torchscript" && !model.file.empty())
      fail("model.file", fmt::format("only the model torchscript has a file, not {}", model.name));
    if (model.sync_batch_norm && model.name == "torchscript") {
      fail("model.sync_batch_norm",
           "the batch norms of a TorchScript model can't be replaced; leave it false, or build the "
           "model in C++ with kolo::SyncBatchNorm");
    }
    if (model.full_scale && model.levels)
      fail("model.levels", "full_scale stands for 6 or 5 levels; give one of the two");
  }

  void check_shape(std::string_view key, const std::vector<int64_t>& shape) const {
    try {
      (void)checked_product(std::span<const int64_t>(shape));
    } catch (const Error&) {
      fail(key, "the product of the sizes does not fit 64 bits");
    }
  }

  void check_optimizer() const {
    const auto& optimizer = config_.optimizer;
    const auto& entry = optimizer_entry(optimizer.name);
    entry.check(optimizer.own, of_section("optimizer"));
    if (!entry.has_own_decay) return;
    if (optimizer.decoupled_decay) {
      fail("optimizer.decoupled_decay",
           fmt::format("{} has its own kind of weight decay", optimizer.name));
    }
    if (config_.model.l2_mode == L2Mode::decoupled) {
      fail("model.l2_mode",
           fmt::format("{} has its own kind of weight decay; set optimizer.weight_decay, and "
                       "model.l2 to 0",
                       optimizer.name));
    }
  }

  // For an entry of a catalogue, which knows its keys but not their section.
  [[nodiscard]] RefuseKey of_section(std::string_view section) const {
    return [this, section](std::string_view key, std::string_view reason) {
      fail(fmt::format("{}.{}", section, key), reason);
    };
  }

  void check_learning_rate() const {
    const auto& training = config_.training;
    const bool has_warmup = training.lr_warmup_epochs > 0 || training.lr_warmup_steps > 0;
    if (training.lr_warmup_epochs > 0 && training.lr_warmup_steps > 0) {
      fail("training.lr_warmup_steps",
           "give the warm-up in epochs (lr_warmup_epochs) or in steps, not both");
    }
    if (!training.lr_schedule.empty() && training.lr_decay != RateDecay::none) {
      fail("training.lr_decay",
           "give the rates by epochs (lr_schedule) or a decay (lr_decay), not both");
    }
    if (has_warmup && training.lr_decay == RateDecay::one_cycle) {
      fail("training.lr_decay",
           "one_cycle rises and falls by itself; leave lr_warmup_epochs and lr_warmup_steps out");
    }
    check_intervals();
  }

  void check_intervals() const {
    double free_from = 0;
    for (const auto& interval : config_.training.lr_schedule) {
      if (interval.start_epoch < free_from) {
        fail("training.lr_schedule",
             fmt::format("the part from epoch {} begins before the one above it ends or begins; "
                         "the parts must be in order and apart",
                         interval.start_epoch));
      }
      if (interval.end_epoch && *interval.end_epoch <= interval.start_epoch) {
        fail("training.lr_schedule",
             fmt::format("the part from epoch {} ends at epoch {}; it must end later than it "
                         "begins",
                         interval.start_epoch, *interval.end_epoch));
      }
      free_from = interval.end_epoch.value_or(interval.start_epoch);
    }
  }

  void check_loss() const {
    const auto& training = config_.training;
    const bool is_binary = training.loss == LossKind::binary_cross_entropy;
    check_regression();
    const auto& classes = config_.model.n_classes;
    if (is_binary && classes && *classes != 1) {
      fail("training.loss", fmt::format("{} needs a network of one output (model.n_classes: 1), "
                                        "but model.n_classes is {}",
                                        name_of(training.loss), *classes));
    }
    if (!is_binary && classes && *classes == 1) {
      fail("training.loss", fmt::format("a network of one output (model.n_classes: 1) learns by "
                                        "binary_crossentropy, not {}",
                                        name_of(training.loss)));
    }
    const auto& metrics = training.metrics;
    if (is_binary &&
        std::ranges::find(metrics, Metric::top_k_categorical_accuracy) != metrics.end()) {
      fail("training.metrics", "top_k_categorical_accuracy needs a network of several outputs");
    }
  }

  void check_regression() const {
    const auto& training = config_.training;
    if (is_of_classes(training.loss)) {
      if (training.lambda_rho > 0)
        fail("training.lambda_rho",
             fmt::format("is for the loss l1, not {}", name_of(training.loss)));
      return;
    }
    if (training.label_smoothing > 0) {
      fail("training.label_smoothing",
           fmt::format("is for labels; {} has none", name_of(training.loss)));
    }
    const ConfigValue* const section = root_.find("training");
    if (section->find("metrics") != nullptr && !training.metrics.empty()) {
      fail("training.metrics", fmt::format("with the loss {} nothing is right or wrong; leave the "
                                           "metrics out",
                                           name_of(training.loss)));
    }
  }

  void check_checkpoint() const {
    const CheckpointConfig& checkpoint = config_.checkpoint;
    if (checkpoint.enabled && checkpoint.every_epochs == 0 && checkpoint.every_steps == 0) {
      fail("checkpoint.every_epochs",
           "every_epochs and every_steps are both 0, so no checkpoint would be written; "
           "set one, or enabled: false");
    }
  }

  const RunConfig& config_;
  const ConfigValue& root_;
};

}  // namespace

void check_run_config(const RunConfig& config, const ConfigValue& root) {
  Checks(config, root).run();
}

}  // namespace kolo
