#include "kolo/config/factories.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/data/loader.h"
#include "kolo/train/observe/format.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/train/checkpoint_observer.h"
#include "kolo/train/trainer.h"

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

// A batch that the machine can't hold is refused before anything is started. `key` sets its size.
void require_memory_for(const RunConfig& config, std::string_view key, std::int64_t samples,
                        const SampleLayout& layout) {
  const auto of_sample = static_cast<double>(layout.input_size()) * sizeof(float) +
                         static_cast<double>(layout.target_size()) *
                             (layout.classes > 0 ? sizeof(std::int64_t) : sizeof(float));
  const auto bytes = static_cast<double>(samples) * of_sample;
  const auto memory = installed_memory();
  if (!memory || bytes <= static_cast<double>(*memory)) return;
  refuse_setting(config, key,
                 fmt::format("a batch of {} samples takes {}, but the machine has {} of memory; "
                             "make it smaller",
                             format_count(samples), format_bytes(static_cast<std::uint64_t>(bytes)),
                             format_bytes(static_cast<std::uint64_t>(*memory))));
}

// A box that lies there is cut there.
bool makes_on_device(const RunConfig& config) {
  return config.device.augment || !need_of_gpu(config.data).empty();
}

}  // namespace

std::unique_ptr<Loader> make_training_loader(const RunConfig& config,
                                             std::shared_ptr<const Dataset> dataset, int rank,
                                             int ranks, int count) {
  const auto size = dataset->size();
  const auto& training = config.training;
  const auto batch_size = batch_size_of(training, ranks);
  const bool is_pipelined = config.parallel.pipeline > 1;  // its batches are of one size
  const bool drops_last = training.drop_last || is_pipelined;
  const auto needed = drops_last ? checked_multiply<std::int64_t>(ranks, batch_size) : ranks;
  if (size < needed) {
    throw InputError(fmt::format(
        "data: {} training samples are too few for {} ranks{}; use fewer ranks or more samples",
        size, ranks,
        drops_last ? fmt::format(" with whole batches of {} ({})", batch_size,
                                 is_pipelined ? "parallel.pipeline" : "training.drop_last")
                   : ""));
  }
  DistributedSampler sampler(
      size, rank, ranks,
      {config.data.shuffle, config.seed, drops_last ? Padding::drop : Padding::repeat}, count);
  require_memory_for(
      config, training.global_batch_size ? "training.global_batch_size" : "training.batch_size",
      checked_multiply<std::int64_t>(std::min(batch_size, sampler.length()), count),
      dataset->layout());
  return std::make_unique<Loader>(
      std::move(dataset), std::move(sampler),
      LoaderOptions{batch_size, config.data.workers, config.data.prefetch, drops_last,
                    makes_on_device(config), config.data.bad_samples});
}

std::unique_ptr<Loader> make_validation_loader(const RunConfig& config,
                                               std::shared_ptr<const Dataset> dataset, int rank,
                                               int ranks, int count) {
  const auto validation_batch = validation_batch_size_of(config, *dataset, ranks);
  DistributedSampler sampler(dataset->size(), rank, ranks, {false, 0, Padding::none}, count);
  require_memory_for(
      config, "training.validation_batch_size",
      checked_multiply<std::int64_t>(std::min(validation_batch, sampler.length()), count),
      dataset->layout());
  return std::make_unique<Loader>(
      std::move(dataset), std::move(sampler),
      LoaderOptions{validation_batch, config.data.workers, config.data.prefetch, false,
                    makes_on_device(config), config.data.bad_samples});
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

std::optional<AdaScale> make_adascale(const RunConfig& config, int ranks,
                                      std::int64_t steps_per_epoch) {
  if (config.optimizer.lr_scaling != Scaling::adascale) return std::nullopt;
  const auto& training = config.training;
  const double ratio = batch_ratio_of(training, ranks);
  if (ranks == 1 && ratio != 1) {
    refuse_setting(config, "optimizer.lr_scaling",
                   fmt::format("adascale compares the gradients of ranks, and there is one, whose "
                               "batch is {:g} times training.base_batch_size; use two ranks or "
                               "more, or that batch",
                               ratio));
  }
  const auto whole = checked_multiply<std::int64_t>(batch_size_of(training, ranks), ranks);
  return AdaScale{static_cast<double>(whole) / ratio, base_steps_of(config, ranks, steps_per_epoch),
                  training.n_epochs};
}

CheckpointSchedule make_checkpoint_schedule(const CheckpointConfig& config) {
  return {config.every_epochs, config.every_steps, config.at_start};
}

}  // namespace kolo
