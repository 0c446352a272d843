#include "kolo/config/factories.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/gradient_hook.h"

namespace kolo {

namespace {

std::int64_t bytes_of_mebibytes(double mebibytes) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(mebibytes * (1 << 20)));
}

// None where gradients travel as they are. It keeps what PowerSGD carries over, so each trainer has
// one of its own.
std::shared_ptr<GradientHook> make_compression(const CommunicationConfig& config) {
  PowerSgdOptions powersgd;
  switch (config.compression) {
    case Compression::none:
      return nullptr;
    case Compression::bf16:
      return bfloat16_compression();
    case Compression::fp16:
      return float16_compression();
    case Compression::powersgd:
      powersgd.rank = config.powersgd_rank.value_or(powersgd.rank);
      powersgd.start_step = config.powersgd_start_step.value_or(powersgd.start_step);
      return power_sgd(powersgd);
  }
  return nullptr;
}

}  // namespace

MeshShape mesh_of(const RunConfig& config, int ranks) {
  try {
    return MeshShape(ranks, config.parallel.mesh());
  } catch (const InputError& error) {
    std::string_view reason = error.what();
    constexpr std::string_view section = "parallel: ";  // which its place has already
    if (reason.starts_with(section)) reason.remove_prefix(section.size());
    refuse_setting(config, "parallel", reason);
  }
}

int replicas_of(const RunConfig& config, int ranks) {
  if (const int parts = config.training.virtual_ranks; parts > 0) {
    if (parts >= ranks) return parts;
    refuse_setting(config, "training.virtual_ranks",
                   fmt::format("{} parts of a step are too few for {} ranks; use as many ranks at "
                               "most, or more virtual ranks",
                               parts, ranks));
  }
  return mesh_of(config, ranks).length(MeshAxis::data);
}

std::string_view replica_name(const RunConfig& config, int ranks) {
  if (config.training.virtual_ranks > 0) return "virtual rank";
  return replicas_of(config, ranks) == ranks ? "rank" : "replica";
}

MpiOptions make_mpi_options(const CommunicationConfig& config) {
  MpiOptions options;
  options.shared_memory = config.shared_memory;
  options.devices.channel = config.device_channel;
  return options;
}

bool divides_gradients(std::string_view optimizer) {
  return optimizer != "sgd" && optimizer != "schedule_free_sgd";
}

TrainerOptions make_trainer_options(const RunConfig& config) {
  TrainerOptions options;
  options.n_epochs = config.training.n_epochs;
  options.max_steps = config.training.max_steps;
  options.seed = config.seed;
  options.buckets = {bytes_of_mebibytes(config.communication.first_bucket_mb),
                     bytes_of_mebibytes(config.communication.bucket_mb)};
  options.reducer.overlap = config.communication.overlap;
  options.reducer.hook = make_compression(config.communication);
  options.sharded = config.optimizer.sharded;
  options.shared_step.enabled = config.optimizer.shared_step;
  options.shared_step.one_copy = config.optimizer.shared_parameters;
  options.virtual_ranks = config.training.virtual_ranks;
  options.accumulation = config.training.accumulation;
  options.noise_scale_every =
      config.optimizer.lr_scaling == Scaling::adascale ? 1 : config.training.noise_scale_every;
  options.noise_metric =
      divides_gradients(config.optimizer.name) ? NoiseMetric::by_tensor : NoiseMetric::plain;
  options.mixup_alpha = config.training.mixup_alpha;
  options.clip_norm = config.training.clip_norm;
  options.early_stopping_patience = config.training.early_stopping_patience;
  options.check_replicas_every = config.training.check_replicas_every;
  if (config.checkpoint.enabled) options.settle_every = config.checkpoint.every_steps;
  options.graphs = config.device.graphs;
  options.recompute = config.parallel.recompute;
  if (config.training.precision == Precision::fp16) options.loss_scale.emplace();
  options.non_finite = config.training.non_finite;
  options.bad_samples_limit = config.data.bad_samples_limit;
  return options;
}

CheckpointSchedule make_checkpoint_schedule(const CheckpointConfig& config) {
  return {config.every_epochs, config.every_steps, config.at_start};
}

}  // namespace kolo
