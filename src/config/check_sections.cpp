#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "config/refusal.h"
#include "config/settle.h"
#include "kolo/base/checked.h"
#include "kolo/config/derived_settings.h"
#include "kolo/nn/loss.h"

namespace kolo {

namespace {

// What must hold within a section, or of a section and the entry of a catalogue that it names.
class SectionChecks {
 public:
  SectionChecks(const RunConfig& config, const ConfigValue& root, const ModelCatalogue& models)
      : config_(config), refusal_(root), models_(models) {}

  void run() const {
    check_data();
    check_model();
    check_optimizer();
    check_learning_rate();
    check_loss();
    check_checkpoint();
  }

 private:
  // For an entry of a catalogue, which knows its keys but not their section.
  [[nodiscard]] RefuseKey of_section(std::string_view section) const {
    return [this, section](std::string_view key, std::string_view reason) {
      refusal_.fail(fmt::format("{}.{}", section, key), reason);
    };
  }

  void check_data() const {
    const auto& data = config_.data;
    const auto& entry = dataset_entry(data.name);
    entry.check(data.own, of_section("data"));
    if (!data.n_train && !entry.needs_n_train.empty())
      refusal_.fail("data.n_train", entry.needs_n_train);
    if (!data.n_valid && !entry.needs_n_valid.empty())
      refusal_.fail("data.n_valid", entry.needs_n_valid);
  }

  void check_model() const {
    const auto& model = config_.model;
    check_shape("model.input_shape", model.input_shape);
    const auto& entry = models_.find(model.name);
    entry.check(model.own, of_section("model"));
    if (model.sync_batch_norm && entry.keeps_batch_norms) {
      refusal_.fail(
          "model.sync_batch_norm",
          fmt::format("the batch norms of the model {} can't be replaced; leave it false, or use a "
                      "model of one's own in C++ with kolo::SyncBatchNorm",
                      model.name));
    }
  }

  void check_shape(std::string_view key, const std::vector<int64_t>& shape) const {
    try {
      (void)checked_product(std::span<const int64_t>(shape));
    } catch (const Error&) {
      refusal_.fail(key, "the product of the sizes does not fit 64 bits");
    }
  }

  void check_optimizer() const {
    const auto& optimizer = config_.optimizer;
    kolo::check_optimizer(optimizer, of_section("optimizer"));
    if (optimizer_entry(optimizer.name).has_own_decay &&
        config_.model.l2_mode == L2Mode::decoupled) {
      refusal_.fail(
          "model.l2_mode",
          fmt::format("{} has its own kind of weight decay; set optimizer.weight_decay, and "
                      "model.l2 to 0",
                      optimizer.name));
    }
  }

  void check_learning_rate() const {
    const auto& training = config_.training;
    const bool has_warmup = training.lr_warmup_epochs > 0 || training.lr_warmup_steps > 0;
    if (training.lr_warmup_epochs > 0 && training.lr_warmup_steps > 0) {
      refusal_.fail("training.lr_warmup_steps",
                    "give the warm-up in epochs (lr_warmup_epochs) or in steps, not both");
    }
    const auto& decay = schedule_entry(training.lr_decay);
    decay.check(training.lr_decay_own, of_section("training"));
    if (!training.lr_schedule.empty() && !decay.takes_intervals) {
      refusal_.fail("training.lr_decay",
                    "give the rates by epochs (lr_schedule) or a decay (lr_decay), not both");
    }
    if (has_warmup && decay.is_own_warmup) {
      refusal_.fail("training.lr_decay",
                    fmt::format("{} rises and falls by itself; leave lr_warmup_epochs "
                                "and lr_warmup_steps out",
                                decay.name));
    }
    check_intervals();
  }

  void check_intervals() const {
    double free_from = 0;
    for (const auto& interval : config_.training.lr_schedule) {
      if (interval.start_epoch < free_from) {
        refusal_.fail(
            "training.lr_schedule",
            fmt::format("the part from epoch {} begins before the one above it ends or begins; "
                        "the parts must be in order and apart",
                        interval.start_epoch));
      }
      if (interval.end_epoch && *interval.end_epoch <= interval.start_epoch) {
        refusal_.fail(
            "training.lr_schedule",
            fmt::format("the part from epoch {} ends at epoch {}; it must end later than it "
                        "begins",
                        interval.start_epoch, *interval.end_epoch));
      }
      free_from = interval.end_epoch.value_or(interval.start_epoch);
    }
  }

  void check_loss() const {
    const auto& training = config_.training;
    const auto& entry = loss_entry(training.loss);
    entry.check(training.loss_own, of_section("training"));
    const auto& classes = config_.model.n_classes;
    if (entry.is_binary && classes && *classes != 1) {
      refusal_.fail("training.loss",
                    fmt::format("{} needs a network of one output (model.n_classes: 1), "
                                "but model.n_classes is {}",
                                entry.name, *classes));
    }
    if (!entry.is_binary && classes && *classes == 1) {
      refusal_.fail("training.loss",
                    fmt::format("a network of one output (model.n_classes: 1) learns by "
                                "binary_crossentropy, not {}",
                                entry.name));
    }
    check_metrics(entry);
  }

  void check_metrics(const LossEntry& loss) const {
    const auto& metrics = config_.training.metrics;
    if (loss.is_binary &&
        std::ranges::find(metrics, Metric::top_k_categorical_accuracy) != metrics.end()) {
      refusal_.fail("training.metrics",
                    "top_k_categorical_accuracy needs a network of several outputs");
    }
    if (loss.has_classes || metrics.empty()) return;
    if (refusal_.root().find("training")->find("metrics") != nullptr) {
      refusal_.fail("training.metrics",
                    fmt::format("with the loss {} nothing is right or wrong; leave the "
                                "metrics out",
                                loss.name));
    }
  }

  void check_checkpoint() const {
    const CheckpointConfig& checkpoint = config_.checkpoint;
    if (checkpoint.enabled && checkpoint.every_epochs == 0 && checkpoint.every_steps == 0) {
      refusal_.fail("checkpoint.every_epochs",
                    "every_epochs and every_steps are both 0, so no checkpoint would be written; "
                    "set one, or enabled: false");
    }
  }

  const RunConfig& config_;
  Refusal refusal_;
  const ModelCatalogue& models_;
};

}  // namespace

void check_sections(const RunConfig& config, const ConfigValue& root,
                    const ModelCatalogue& models) {
  SectionChecks(config, root, models).run();
}

}  // namespace kolo
