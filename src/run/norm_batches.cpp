#include "run/norm_batches.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "kolo/config/derived_settings.h"

namespace kolo {

namespace {

// Samples of each replica in an epoch, and in its batches: all but the last are `whole`.
struct Batches {
  std::int64_t samples = 0, whole = 0, last = 0;

  Batches(const RunConfig& config, std::int64_t size, int replicas)
      : samples((size + replicas - 1) / replicas),
        whole(batch_size_of(config.training, replicas)),
        last(samples % whole) {
    if (config.training.drop_last || config.parallel.pipeline > 1 || last == 0) last = whole;
  }
};

// The first batch norm of one position that trains.
std::string norm_of_one_position(Network& network, const Dataset& training) {
  const auto modules = network.named_modules();
  for (const auto& layer : summarize(network, training.layout().input_shape).layers) {
    const auto& shape = layer.output_shape;
    if (layer.kind != "batch_norm" || shape.empty()) continue;
    const auto positions =
        std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
    const auto* const module = modules.find(layer.name);
    if (positions == 1 && (module == nullptr || (*module)->is_training())) return layer.name;
  }
  return {};
}

}  // namespace

void require_values_to_normalize(const RunConfig& config, const Dataset& training, Network& network,
                                 int ranks) {
  const auto& settings = config.training;
  const int replicas = replicas_of(config, ranks);
  // Statistics of all ranks, or of all parts of a sample, are of more.
  if ((config.model.sync_batch_norm && replicas > 1) || !config.parallel.spatial.empty()) return;
  const Batches batches(config, training.size(), replicas);
  const auto smallest = [&](std::int64_t batch) {
    return batch / std::min(batch, settings.accumulation);
  };
  const bool is_last = smallest(batches.last) == 1 && smallest(batches.whole) > 1;
  if (!is_last && smallest(batches.whole) > 1) return;
  const auto norm = norm_of_one_position(network, training);
  if (norm.empty()) return;
  const auto passes = settings.accumulation > 1
                          ? fmt::format(" in {} passes", settings.accumulation)
                          : std::string();
  const auto samples = fmt::format("{} sample{} per {}", batches.samples,
                                   batches.samples == 1 ? "" : "s", replica_name(config, ranks));
  refuse_setting(
      config, settings.global_batch_size ? "training.global_batch_size" : "training.batch_size",
      is_last
          ? fmt::format(
                "{} in batches of {}{} leave a pass of 1 sample at an epoch's end, of which "
                "the batch norm {} would get one value per channel; leave that batch out "
                "(training.drop_last=true), or take another batch",
                samples, batches.whole, passes, norm)
          : fmt::format("a batch of {}{} gives the batch norm {} one value per channel, which has "
                        "no variance; take a larger batch",
                        batches.whole, passes, norm));
}

}  // namespace kolo
