#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/settle.h"
#include "kolo/nn/loss.h"
#include "kolo/parallel/step_conflicts.h"

namespace kolo {

namespace {

class ConfigChecks {
 public:
  ConfigChecks(const RunConfig& config, const ModelCatalogue& models)
      : config_(config), models_(models) {}

  void run() const {
    // Within a section, or of a section and the entry of a catalogue that it names.
    check_data();
    check_model();
    check_optimizer(config_.optimizer, of_section("optimizer"));
    check_learning_rate();
    check_loss();
    // Keys that exclude each other.
    check_step();
    check_microbatches();
    check_accumulation();
    check_compression();
    check_sharding();
    check_freezing();
  }

 private:
  [[noreturn]] void fail(std::string_view key, std::string_view reason) const {
    refuse_setting(config_, key, reason);
  }
  [[nodiscard]] RefuseKey of_section(std::string_view section) const {
    return refuse_in(config_, section);
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
    check_shape(of_section("model"), "input_shape", model.input_shape);
    const auto& entry = models_.find(model.name);
    entry.check(model.own, of_section("model"));
    if (model.sync_batch_norm && entry.keeps_batch_norms) {
      fail(
          "model.sync_batch_norm",
          fmt::format("the batch norms of the model {} can't be replaced; leave it false, or use a "
                      "model of one's own in C++ with kolo::SyncBatchNorm",
                      model.name));
    }
  }

  void check_learning_rate() const {
    const auto& training = config_.training;
    const bool has_warmup = training.lr_warmup_epochs > 0 || training.lr_warmup_steps > 0;
    if (training.lr_warmup_epochs > 0 && training.lr_warmup_steps > 0) {
      fail("training.lr_warmup_steps",
           "give the warm-up in epochs (lr_warmup_epochs) or in steps, not both");
    }
    const auto& decay = schedule_entry(training.lr_decay);
    decay.check(training.lr_decay_own, of_section("training"));
    if (!training.lr_schedule.empty() && !decay.takes_intervals) {
      fail("training.lr_decay",
           "give the rates by epochs (lr_schedule) or a decay (lr_decay), not both");
    }
    if (has_warmup && decay.is_own_warmup) {
      fail("training.lr_decay", fmt::format("{} rises and falls by itself; leave lr_warmup_epochs "
                                            "and lr_warmup_steps out",
                                            decay.name));
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
    const auto& entry = loss_entry(training.loss);
    entry.check(training.loss_own, of_section("training"));
    const auto& classes = config_.model.n_classes;
    if (entry.is_binary && classes && *classes != 1) {
      fail("training.loss", fmt::format("{} needs a network of one output (model.n_classes: 1), "
                                        "but model.n_classes is {}",
                                        entry.name, *classes));
    }
    if (!entry.is_binary && classes && *classes == 1) {
      fail("training.loss", fmt::format("a network of one output (model.n_classes: 1) learns by "
                                        "binary_crossentropy, not {}",
                                        entry.name));
    }
    check_metrics(entry);
  }

  void check_metrics(const LossEntry& loss) const {
    const auto& metrics = config_.training.metrics;
    if (loss.is_binary &&
        std::ranges::find(metrics, Metric::top_k_categorical_accuracy) != metrics.end()) {
      fail("training.metrics", "top_k_categorical_accuracy needs a network of several outputs");
    }
    if (loss.has_classes || metrics.empty()) return;
    if (config_.places.contains("training.metrics")) {
      fail("training.metrics", fmt::format("with the loss {} nothing is right or wrong; leave the "
                                           "metrics out",
                                           loss.name));
    }
  }

  // Key and value of each feature in the table of kolo/parallel/step_conflicts.h.
  struct Key {
    StepFeature feature;
    bool is_used;
    std::string_view key;
    std::string value = "true";
  };

  [[nodiscard]] std::vector<Key> keys_of_step() const {
    const auto& [training, parallel, communication] =
        std::tie(config_.training, config_.parallel, config_.communication);
    const std::string compression(name_of(communication.compression));
    return {{StepFeature::graphs, config_.device.graphs, "device.graphs"},
            {StepFeature::virtual_ranks, training.virtual_ranks > 0, "training.virtual_ranks",
             std::to_string(training.virtual_ranks)},
            {StepFeature::accumulation, training.accumulation > 1, "training.accumulation",
             std::to_string(training.accumulation)},
            {StepFeature::gradient_hook, communication.compression != Compression::none,
             "communication.compression", compression},
            {StepFeature::power_sgd, communication.compression == Compression::powersgd,
             "communication.compression", compression},
            {StepFeature::sharded, config_.optimizer.sharded, "optimizer.sharded"},
            {StepFeature::parts, parallel.pipeline > 1, "parallel.pipeline"},
            {StepFeature::recompute, parallel.recompute, "parallel.recompute"},
            {StepFeature::spatial, config_.parallel.shares_samples(), "parallel.spatial"},
            {StepFeature::sync_batch_norm, config_.model.sync_batch_norm, "model.sync_batch_norm"},
            {StepFeature::loss_scale, training.precision == Precision::fp16,
             "training.precision=fp16"}};
  }

  void check_step() const {
    const auto keys = keys_of_step();
    StepFeatures features{};
    for (const auto& key : keys) features.set(key.feature, key.is_used);
    for (const auto& conflict : conflicts(features)) {
      const auto& mine = *std::ranges::find(keys, conflict.feature, &Key::feature);
      const auto& other = *std::ranges::find(keys, conflict.other, &Key::feature);
      fail(mine.key, describe(conflict, mine.value, other.key));
    }
  }

  void check_microbatches() const {
    const auto& parallel = config_.parallel;
    if (!parallel.microbatches || parallel.pipeline > 1) return;
    fail("parallel.microbatches",
         fmt::format("{}, but without a pipeline batches aren't cut; set parallel.pipeline, or "
                     "leave it out (parallel.microbatches=null)",
                     *parallel.microbatches));
  }

  void check_accumulation() const {
    const auto count = config_.training.accumulation;
    if (count == 1) return;
    const auto& training = config_.training;
    const auto batch = training.batch_size ? training.batch_size : training.local_batch_size;
    if (!training.global_batch_size && count > batch.value_or(default_batch_size)) {
      fail("training.accumulation",
           fmt::format("a rank's batch of {} samples can't be cut in {} parts; batch_size counts "
                       "the samples of a whole step",
                       batch.value_or(default_batch_size), count));
    }
  }

  void check_compression() const {
    const auto& communication = config_.communication;
    const bool is_powersgd = communication.compression == Compression::powersgd;
    const std::pair<std::string_view, bool> of_powersgd[] = {
        {"communication.powersgd_rank", communication.powersgd_rank.has_value()},
        {"communication.powersgd_start_step", communication.powersgd_start_step.has_value()}};
    for (const auto& [key, is_set] : of_powersgd) {
      if (is_set && !is_powersgd) {
        fail(key, fmt::format("only PowerSGD has it, and the compression is {}; set "
                              "communication.compression=powersgd, or leave it out",
                              name_of(communication.compression)));
      }
    }
  }

  void check_sharding() const {
    const auto& name = config_.optimizer.name;
    if (!config_.optimizer.sharded) return;
    if (optimizer_entry(name).takes_whole_parameters) {
      fail("optimizer.sharded",
           fmt::format("{} needs whole parameters, of which a rank would have a part; "
                       "leave it false, or use another optimizer",
                       name));
    }
  }

  void check_freezing() const {
    if (config_.model.freeze.empty()) return;
    if (config_.parallel.pipeline > 1) {
      fail("model.freeze",
           fmt::format("[{}] can't be had with parallel.pipeline: a rank may be left with nothing "
                       "to train; leave out one of the two",
                       fmt::join(config_.model.freeze, ", ")));
    }
    if (models_.find(config_.model.name).keeps_batch_norms) {
      fail("model.freeze",
           "modules of a TorchScript model can't be held in evaluation mode; leave it out, or set "
           "requires_grad of their parameters to False in Python before torch.jit.script");
    }
  }

  const RunConfig& config_;
  const ModelCatalogue& models_;
};

}  // namespace

void check_run_config(const RunConfig& config, const ModelCatalogue& models) {
  ConfigChecks(config, models).run();
}

}  // namespace kolo
