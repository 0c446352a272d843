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

void check_data(const RunConfig& config) {
  const auto& data = config.data;
  const auto& entry = dataset_entry(data.name);
  entry.check(data.own, refuse_in(config, "data"));
  if (!data.n_train && !entry.needs_n_train.empty())
    refuse_setting(config, "data.n_train", entry.needs_n_train);
  if (!data.n_valid && !entry.needs_n_valid.empty())
    refuse_setting(config, "data.n_valid", entry.needs_n_valid);
}

void check_model(const RunConfig& config, const ModelCatalogue& models) {
  const auto& model = config.model;
  check_shape(refuse_in(config, "model"), "input_shape", model.input_shape);
  const auto& entry = models.find(model.name);
  entry.check(model.own, refuse_in(config, "model"));
  if (model.sync_batch_norm && entry.is_script) {
    refuse_setting(
        config, "model.sync_batch_norm",
        fmt::format("the batch norms of the model {} can't be replaced; leave it false, or use a "
                    "model of one's own in C++ with kolo::SyncBatchNorm",
                    model.name));
  }
}

void check_learning_rate(const RunConfig& config) {
  const auto& training = config.training;
  const bool has_warmup = training.lr_warmup_epochs > 0 || training.lr_warmup_steps > 0;
  if (training.lr_warmup_epochs > 0 && training.lr_warmup_steps > 0) {
    refuse_setting(config, "training.lr_warmup_steps",
                   "give the warm-up in epochs (lr_warmup_epochs) or in steps, not both");
  }
  const auto& decay = schedule_entry(training.lr_decay);
  decay.check(training.lr_decay_own, refuse_in(config, "training"));
  if (!training.lr_schedule.empty() && !decay.takes_intervals) {
    refuse_setting(config, "training.lr_decay",
                   "give the rates by epochs (lr_schedule) or a decay (lr_decay), not both");
  }
  if (has_warmup && decay.is_own_warmup) {
    refuse_setting(config, "training.lr_decay",
                   fmt::format("{} rises and falls by itself; leave lr_warmup_epochs "
                               "and lr_warmup_steps out",
                               decay.name));
  }
  // Steps per epoch, which the data decides, don't matter to the order of intervals.
  at_setting(config, "training.lr_schedule", [&] {
    PiecewiseRate{.intervals = training.lr_schedule, .steps_per_epoch = 1}.check(0);
  });
}

void check_metrics(const RunConfig& config, const LossEntry& loss) {
  const auto& metrics = config.training.metrics;
  if (loss.is_binary &&
      std::ranges::find(metrics, Metric::top_k_categorical_accuracy) != metrics.end()) {
    refuse_setting(config, "training.metrics",
                   "top_k_categorical_accuracy needs a network of several outputs");
  }
  if (loss.has_classes || metrics.empty()) return;
  if (config.origins.contains("training.metrics")) {
    refuse_setting(config, "training.metrics",
                   fmt::format("with the loss {} nothing is right or wrong; leave the metrics out",
                               loss.name));
  }
}

void check_loss(const RunConfig& config) {
  const auto& training = config.training;
  const auto& entry = loss_entry(training.loss);
  entry.check(training.loss_own, refuse_in(config, "training"));
  const auto& classes = config.model.n_classes;
  if (entry.is_binary && classes && *classes != 1) {
    refuse_setting(config, "training.loss",
                   fmt::format("{} needs a network of one output (model.n_classes: 1), "
                               "but model.n_classes is {}",
                               entry.name, *classes));
  }
  if (!entry.is_binary && classes && *classes == 1) {
    refuse_setting(config, "training.loss",
                   fmt::format("a network of one output (model.n_classes: 1) learns by "
                               "binary_crossentropy, not {}",
                               entry.name));
  }
  check_metrics(config, entry);
}

// Key and value of each feature in the table of kolo/parallel/step_conflicts.h.
struct Key {
  StepFeature feature;
  bool is_used;
  std::string_view key;
  std::string value = "true";
};

std::vector<Key> keys_of_step(const RunConfig& config) {
  const auto& [training, parallel, communication] =
      std::tie(config.training, config.parallel, config.communication);
  const std::string compression(name_of(communication.compression));
  return {
      {StepFeature::graphs, config.device.graphs, "device.graphs"},
      {StepFeature::virtual_ranks, training.virtual_ranks > 0, "training.virtual_ranks",
       std::to_string(training.virtual_ranks)},
      {StepFeature::accumulation, training.accumulation > 1, "training.accumulation",
       std::to_string(training.accumulation)},
      {StepFeature::gradient_hook, communication.compression != Compression::none,
       "communication.compression", compression},
      {StepFeature::error_feedback, communication.compression == Compression::powersgd,
       "communication.compression", compression},
      {StepFeature::sharded, config.optimizer.sharded, "optimizer.sharded"},
      {StepFeature::parts, parallel.pipeline > 1, "parallel.pipeline"},
      {StepFeature::recompute, parallel.recompute, "parallel.recompute"},
      {StepFeature::spatial, config.parallel.shares_samples(), "parallel.spatial"},
      {StepFeature::sync_batch_norm, config.model.sync_batch_norm, "model.sync_batch_norm"},
      {StepFeature::loss_scale, training.precision == Precision::fp16, "training.precision=fp16"},
      {StepFeature::skip_non_finite, training.non_finite == NonFiniteStep::skip,
       "training.non_finite=skip"},
      {StepFeature::frozen, !config.model.freeze.empty(), "model.freeze",
       fmt::format("[{}]", fmt::join(config.model.freeze, ", "))}};
}

void check_step(const RunConfig& config) {
  const auto keys = keys_of_step(config);
  for (const auto& conflict : conflicts(step_features_of(config))) {
    const auto& mine = *std::ranges::find(keys, conflict.feature, &Key::feature);
    const auto& other = *std::ranges::find(keys, conflict.other, &Key::feature);
    refuse_setting(config, mine.key, describe(conflict, mine.value, other.key));
  }
}

void check_microbatches(const RunConfig& config) {
  const auto& parallel = config.parallel;
  if (!parallel.microbatches || parallel.pipeline > 1) return;
  refuse_setting(
      config, "parallel.microbatches",
      fmt::format("{}, but without a pipeline batches aren't cut; set parallel.pipeline, or "
                  "leave it out (parallel.microbatches=null)",
                  *parallel.microbatches));
}

void check_accumulation(const RunConfig& config) {
  const auto count = config.training.accumulation;
  if (count == 1) return;
  const auto& training = config.training;
  const auto batch = training.batch_size ? training.batch_size : training.local_batch_size;
  if (!training.global_batch_size && count > batch.value_or(default_batch_size)) {
    refuse_setting(
        config, "training.accumulation",
        fmt::format("a rank's batch of {} samples can't be cut in {} parts; batch_size counts "
                    "the samples of a whole step",
                    batch.value_or(default_batch_size), count));
  }
}

void check_compression(const RunConfig& config) {
  const auto& communication = config.communication;
  const bool is_powersgd = communication.compression == Compression::powersgd;
  const std::pair<std::string_view, bool> of_powersgd[] = {
      {"communication.powersgd_rank", communication.powersgd_rank.has_value()},
      {"communication.powersgd_start_step", communication.powersgd_start_step.has_value()}};
  for (const auto& [key, is_set] : of_powersgd) {
    if (is_set && !is_powersgd) {
      refuse_setting(config, key,
                     fmt::format("only PowerSGD has it, and the compression is {}; set "
                                 "communication.compression=powersgd, or leave it out",
                                 name_of(communication.compression)));
    }
  }
}

void check_sharding(const RunConfig& config) {
  const auto& name = config.optimizer.name;
  if (config.optimizer.sharded && optimizer_entry(name).takes_whole_parameters) {
    refuse_setting(config, "optimizer.sharded",
                   fmt::format("{} needs whole parameters, of which a rank would have a part; "
                               "leave it false, or use another optimizer",
                               name));
  }
}

void check_freezing(const RunConfig& config, const ModelCatalogue& models) {
  if (!config.model.freeze.empty() && models.find(config.model.name).is_script) {
    refuse_setting(
        config, "model.freeze",
        "modules of a TorchScript model can't be held in evaluation mode; leave it out, or set "
        "requires_grad of their parameters to False in Python before torch.jit.script");
  }
}

}  // namespace

StepFeatures step_features_of(const RunConfig& config) {
  StepFeatures features{};
  for (const auto& key : keys_of_step(config)) features.set(key.feature, key.is_used);
  return features;
}

void check_run_config(const RunConfig& config, const ModelCatalogue& models) {
  // Within a section, or of a section and the entry of a catalogue that it names.
  check_data(config);
  check_model(config, models);
  check_optimizer(config.optimizer, refuse_in(config, "optimizer"));
  check_learning_rate(config);
  check_loss(config);
  // Keys that exclude each other.
  check_step(config);
  check_microbatches(config);
  check_accumulation(config);
  check_compression(config);
  check_sharding(config);
  check_freezing(config, models);
}

}  // namespace kolo
