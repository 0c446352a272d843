#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/refusal.h"
#include "config/settle.h"
#include "kolo/config/derived_settings.h"

namespace kolo {

namespace {

// What can't be had together.
class CombinationChecks {
 public:
  CombinationChecks(const RunConfig& config, const ConfigValue& root, const ModelCatalogue& models)
      : config_(config), refusal_(root), models_(models) {}

  void run() const {
    check_graphs();
    check_pipeline();
    check_virtual_ranks();
    check_accumulation();
    check_noise();
    check_views();
    check_compression();
    check_sharding();
    check_freezing();
  }

 private:
  void check_graphs() const {
    if (config_.device.graphs && config_.training.mixup_alpha > 0) {
      refusal_.fail(
          "device.graphs",
          "with training.mixup_alpha the numbers of each step are others, so that none can be "
          "recorded; leave out one of the two");
    }
  }

  void check_pipeline() const {
    const auto& parallel = config_.parallel;
    if (parallel.microbatches && parallel.pipeline == 1) {
      refusal_.fail(
          "parallel.microbatches",
          fmt::format("{}, but without a pipeline batches aren't cut; set parallel.pipeline, or "
                      "leave it out (parallel.microbatches=null)",
                      *parallel.microbatches));
    }
    if (config_.device.graphs && (parallel.pipeline > 1 || parallel.recompute)) {
      refusal_.fail(
          "device.graphs",
          fmt::format("with parallel.{} the passes of a step can't be recorded as one; leave out "
                      "one of the two",
                      parallel.pipeline > 1 ? "pipeline" : "recompute"));
    }
  }

  void check_virtual_ranks() const {
    if (config_.training.virtual_ranks == 0) return;
    const auto& parallel = config_.parallel;
    const bool shares_samples =
        std::ranges::any_of(parallel.spatial, [](auto ranks) { return ranks > 1; });
    constexpr auto one_rank = "each part of a step is one rank's";
    refusal_.refuse_together(
        "training.virtual_ranks", std::to_string(config_.training.virtual_ranks),
        {{shares_samples, "parallel.spatial", one_rank},
         {parallel.pipeline > 1, "parallel.pipeline", one_rank},
         {config_.model.sync_batch_norm, "model.sync_batch_norm",
          "a rank computes its parts one after another, and each would wait for the others"},
         {config_.device.graphs, "device.graphs",
          "a step has as many passes as the rank has parts"}});
  }

  void check_accumulation() const {
    const auto count = config_.training.accumulation;
    if (count == 1) return;
    refusal_.refuse_together(
        "training.accumulation", std::to_string(count),
        {{config_.parallel.pipeline > 1, "parallel.pipeline",
          "a pipeline's batches are cut in parts by parallel.microbatches already"},
         {config_.training.virtual_ranks > 0, "training.virtual_ranks",
          "a rank makes its steps in the parts of its virtual ranks already"},
         {config_.device.graphs, "device.graphs", "a step has several passes"}});
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

  void check_noise() const {
    const auto& training = config_.training;
    const bool is_adascale = config_.optimizer.lr_scaling == Scaling::adascale;
    if (is_adascale && config_.optimizer.name != "sgd") {
      refusal_.fail(
          "optimizer.lr_scaling",
          fmt::format("adascale is derived for sgd, and the optimizer is {}; use sgd, or linear or "
                      "sqrt",
                      config_.optimizer.name));
    }
    if (training.noise_scale_every == 0 && !is_adascale) return;
    const bool is_set = training.noise_scale_every > 0;
    refusal_.refuse_together(
        is_set ? "training.noise_scale_every" : "optimizer.lr_scaling",
        is_set ? std::to_string(training.noise_scale_every) : "adascale",
        {{training.virtual_ranks > 0, "training.virtual_ranks",
          "their gradients are added up in an order of their own"},
         {config_.optimizer.sharded, "optimizer.sharded",
          "no rank has the whole averaged gradient"},
         {config_.parallel.pipeline > 1, "parallel.pipeline",
          "each rank has a part of the gradient"},
         {config_.device.graphs, "device.graphs", "a recorded step can't be asked"},
         {training.precision == Precision::fp16, "training.precision=fp16",
          "gradients have a loss scale that changes"}});
  }

  void check_views() const {
    const auto views = config_.training.validation_views;
    if (views == ValidationViews::one) return;
    const bool shares_samples =
        std::ranges::any_of(config_.parallel.spatial, [](auto ranks) { return ranks > 1; });
    refusal_.refuse_together(
        "training.validation_views", name_of(views),
        {{config_.parallel.pipeline > 1, "parallel.pipeline", "a pipeline takes each sample once"},
         {shares_samples, "parallel.spatial", "a rank has a part of each sample"}});
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
    if (communication.compression == Compression::none) return;
    refusal_.refuse_together(
        "communication.compression", name_of(communication.compression),
        {{config_.training.virtual_ranks > 0, "training.virtual_ranks",
          "their gradients are added up in an order of their own, unrounded"},
         {config_.device.graphs, "device.graphs",
          "compressed gradients go through the host's hands"},
         {is_powersgd && config_.training.precision == Precision::fp16, "training.precision=fp16",
          "what PowerSGD carries over to the next step has the loss scale of the last"}});
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
    refusal_.refuse_together(
        "optimizer.sharded", "true",
        {{config_.training.virtual_ranks > 0, "training.virtual_ranks",
          "gradients are added up by one of the two"},
         {config_.communication.compression != Compression::none, "communication.compression",
          "each rank is sent its part of the gradients alone, as it is"},
         {config_.parallel.pipeline > 1, "parallel.pipeline",
          "a pipeline's ranks have parts of the state already"},
         {config_.device.graphs, "device.graphs",
          "ranks gather each other's parameters in a step"}});
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
