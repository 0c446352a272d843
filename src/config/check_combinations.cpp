#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/refusal.h"
#include "config/settle.h"
#include "kolo/config/derived_settings.h"
#include "kolo/parallel/step_conflicts.h"

namespace kolo {

namespace {

// Checks keys that exclude each other.
class CombinationChecks {
 public:
  CombinationChecks(const RunConfig& config, const ConfigValue& root, const ModelCatalogue& models)
      : config_(config), refusal_(root), models_(models) {}

  void run() const {
    check_step();
    check_microbatches();
    check_accumulation();
    check_adascale();
    check_views();
    check_compression();
    check_sharding();
    check_freezing();
  }

 private:
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
    const bool measures = training.noise_scale_every > 0;
    const std::string compression(name_of(communication.compression));
    return {{StepFeature::graphs, config_.device.graphs, "device.graphs"},
            {StepFeature::virtual_ranks, training.virtual_ranks > 0, "training.virtual_ranks",
             std::to_string(training.virtual_ranks)},
            {StepFeature::accumulation, training.accumulation > 1, "training.accumulation",
             std::to_string(training.accumulation)},
            {StepFeature::noise_scale, measures || is_adascale(),
             measures ? "training.noise_scale_every" : "optimizer.lr_scaling",
             measures ? std::to_string(training.noise_scale_every) : "adascale"},
            {StepFeature::gradient_hook, communication.compression != Compression::none,
             "communication.compression", compression},
            {StepFeature::power_sgd, communication.compression == Compression::powersgd,
             "communication.compression", compression},
            {StepFeature::sharded, config_.optimizer.sharded, "optimizer.sharded"},
            {StepFeature::parts, parallel.pipeline > 1, "parallel.pipeline"},
            {StepFeature::mixup, training.mixup_alpha > 0, "training.mixup_alpha"},
            {StepFeature::recompute, parallel.recompute, "parallel.recompute"},
            {StepFeature::spatial, shares_samples(), "parallel.spatial"},
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
      refusal_.fail(mine.key, describe(conflict, mine.value, other.key));
    }
  }

  [[nodiscard]] bool is_adascale() const {
    return config_.optimizer.lr_scaling == Scaling::adascale;
  }
  [[nodiscard]] bool shares_samples() const {
    return std::ranges::any_of(config_.parallel.spatial, [](auto ranks) { return ranks > 1; });
  }

  void check_microbatches() const {
    const auto& parallel = config_.parallel;
    if (!parallel.microbatches || parallel.pipeline > 1) return;
    refusal_.fail(
        "parallel.microbatches",
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
      refusal_.fail(
          "training.accumulation",
          fmt::format("a rank's batch of {} samples can't be cut in {} parts; batch_size counts "
                      "the samples of a whole step",
                      batch.value_or(default_batch_size), count));
    }
  }

  void check_adascale() const {
    if (!is_adascale() || config_.optimizer.name == "sgd") return;
    refusal_.fail(
        "optimizer.lr_scaling",
        fmt::format("adascale is derived for sgd, and the optimizer is {}; use sgd, or linear or "
                    "sqrt",
                    config_.optimizer.name));
  }

  void check_views() const {
    const auto views = config_.training.validation_views;
    if (views == ValidationViews::one) return;
    refusal_.refuse_together(
        "training.validation_views", name_of(views),
        {{config_.parallel.pipeline > 1, "parallel.pipeline", "a pipeline takes each sample once"},
         {shares_samples(), "parallel.spatial", "a rank has a part of each sample"}});
  }

  void check_compression() const {
    const auto& communication = config_.communication;
    const bool is_powersgd = communication.compression == Compression::powersgd;
    const std::pair<std::string_view, bool> of_powersgd[] = {
        {"communication.powersgd_rank", communication.powersgd_rank.has_value()},
        {"communication.powersgd_start_step", communication.powersgd_start_step.has_value()}};
    for (const auto& [key, is_set] : of_powersgd) {
      if (is_set && !is_powersgd) {
        refusal_.fail(key, fmt::format("only PowerSGD has it, and the compression is {}; set "
                                       "communication.compression=powersgd, or leave it out",
                                       name_of(communication.compression)));
      }
    }
  }

  void check_sharding() const {
    const auto& name = config_.optimizer.name;
    if (!config_.optimizer.sharded) return;
    if (optimizer_entry(name).takes_whole_parameters) {
      refusal_.fail("optimizer.sharded",
                    fmt::format("{} needs whole parameters, of which a rank would have a part; "
                                "leave it false, or use another optimizer",
                                name));
    }
  }

  void check_freezing() const {
    if (config_.model.freeze.empty()) return;
    refusal_.refuse_together("model.freeze",
                             fmt::format("[{}]", fmt::join(config_.model.freeze, ", ")),
                             {{config_.parallel.pipeline > 1, "parallel.pipeline",
                               "a rank may be left with nothing to train"}});
    if (models_.find(config_.model.name).keeps_batch_norms) {
      refusal_.fail(
          "model.freeze",
          "modules of a TorchScript model can't be held in evaluation mode; leave it out, or set "
          "requires_grad of their parameters to False in Python before torch.jit.script");
    }
  }

  const RunConfig& config_;
  Refusal refusal_;
  const ModelCatalogue& models_;
};

}  // namespace

void check_combinations(const RunConfig& config, const ConfigValue& root,
                        const ModelCatalogue& models) {
  CombinationChecks(config, root, models).run();
}

}  // namespace kolo
