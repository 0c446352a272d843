#include "run/pipeline_part.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/sync_batch_norm.h"
#include "kolo/parallel/timeline.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/pipelined_network.h"
#include "run/run_device.h"
#include "train/batches.h"

namespace kolo {

namespace {

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t each = 1; each <= number; ++each)
    if (number % each == 0) divisors.push_back(each);
  return divisors;
}

void require_micro_batches(const RunConfig& config, int ranks) {
  const auto& given = config.parallel.microbatches;
  const auto batch = batch_size_of(config.training, replicas_of(config, ranks));
  if (!given || batch % *given == 0) return;
  constexpr std::size_t most_named = 12;
  auto fitting = divisors_of(batch);
  const bool are_all = fitting.size() <= most_named;
  fitting.resize(std::min(fitting.size(), most_named));
  refuse_setting(config, "parallel.microbatches",
                 fmt::format("{}, but a replica's batch of {} samples can't be cut in so many of "
                             "equal size; it can in {}{}",
                             *given, batch, fmt::join(fitting, ", "), are_all ? "" : ", ..."));
}

std::vector<NetworkStage> stages_for(const RunConfig& config, const Network& network,
                                     std::string_view key) {
  try {
    return network.stages();
  } catch (const InputError& error) {
    refuse_setting(config, key, error.what());
  }
}

// Number of micro-batches of a replica's batch: as configured, or the largest divisor of the batch
// that is at most twice the pipeline's length.
int micro_batches_of(const RunConfig& config, int ranks) {
  const auto& parallel = config.parallel;
  if (parallel.pipeline == 1) return 1;
  if (parallel.microbatches) return narrow<int>(*parallel.microbatches);
  const auto batch = batch_size_of(config.training, replicas_of(config, ranks));
  auto count = std::min(2 * parallel.pipeline, batch);
  while (batch % count != 0) --count;
  return narrow<int>(count);
}

std::vector<ChainStage> counted_costs(const Datasets& datasets, Network& network,
                                      std::int64_t micro_batch) {
  std::vector<ChainStage> costs;
  const auto& shape = datasets.training->layout().input_shape;
  for (const auto& stage : summarize_stages(network, shape)) {
    const auto elements = checked_multiply(stage.elements, micro_batch);
    costs.push_back({.work = static_cast<double>(stage.flops),
                     .bytes_after = checked_multiply<std::int64_t>(elements, sizeof(float))});
  }
  return costs;
}

bool has_batch_norm(const Network& network) {
  return std::ranges::any_of(network.named_buffers(), [](const auto& buffer) {
    return buffer.key().ends_with("running_mean");
  });
}

// Text "stem to stage2.block1".
std::string stages_of_part(const PipelineCut& cut, std::size_t part) {
  const auto& first = cut.stages[cut.bounds[part]];
  const auto& last = cut.stages[cut.bounds[part + 1] - 1];
  return first == last ? first : fmt::format("{} to {}", first, last);
}

std::string describe_part(const PipelineCut& cut, std::size_t part) {
  constexpr double megabyte = 1e6;
  const auto all = std::accumulate(cut.work.begin(), cut.work.end(), 0.0);
  const bool is_last = part + 1 == cut.work.size();
  return fmt::format("rank {}: {} ({:.0f} % of the operations{})", part, stages_of_part(cut, part),
                     all > 0 ? 100 * cut.work[part] / all : 0,
                     is_last ? ""
                             : fmt::format(", {:.3g} MB per micro-batch to the next",
                                           static_cast<double>(cut.bytes[part]) / megabyte));
}

// Makes this rank's part on its device, which keeps nothing else of the network. Collective.
std::shared_ptr<PipelinedNetwork> make_pipeline(const RunConfig& config, const DeviceMesh& mesh,
                                                const PipelineCut& cut, const Network& network,
                                                const Objective& objective,
                                                const torch::Device& device,
                                                const Timeline& timeline) {
  auto stages = network.stages();
  const auto rank = static_cast<std::size_t>(mesh.coordinate(MeshAxis::pipe));
  for (auto stage = cut.bounds[rank]; stage < cut.bounds[rank + 1]; ++stage)
    for (const auto& each : stages[stage].modules) move_network(*each.module, config, device);
  return std::make_shared<PipelinedNetwork>(
      mesh, network, std::move(stages), objective,
      PipelinedNetworkOptions{.schedule = cut.shape.schedule,
                              .micro_batches = cut.shape.micro_batches,
                              .bounds = cut.bounds,
                              .recompute = config.parallel.recompute,
                              .seed = config.seed,
                              .timeline = timeline});
}

// Cuts the network so that the ranks have about equally many FLOPs, alike on all ranks. Forgets how
// samples are shared (Network::share_samples()). Local.
PipelineCut cut_pipeline(const RunConfig& config, const Datasets& datasets, Network& network,
                         int ranks) {
  const auto& parallel = config.parallel;
  const auto batch = batch_size_of(config.training, replicas_of(config, ranks));
  const int micro_batches = micro_batches_of(config, ranks);
  PipelineCut cut{.shape = {.schedule = parallel.schedule,
                            .ranks = narrow<int>(parallel.pipeline),
                            .micro_batches = micro_batches},
                  .has_batch_norms = has_batch_norm(network),
                  .micro_batch = batch / micro_batches};
  if (parallel.shares_samples()) network.share_samples(nullptr);
  for (const auto& stage : network.stages()) cut.stages.push_back(stage.name);
  const auto costs = counted_costs(datasets, network, cut.micro_batch);
  cut.bounds = cut_stages(costs, cut.shape.ranks);
  for (std::size_t part = 0; part + 1 < cut.bounds.size(); ++part) {
    double work = 0;
    for (auto stage = cut.bounds[part]; stage < cut.bounds[part + 1]; ++stage)
      work += costs[stage].work;
    cut.work.push_back(work);
    cut.bytes.push_back(costs[cut.bounds[part + 1] - 1].bytes_after);
  }
  return cut;
}

}  // namespace

void require_pipeline(const RunConfig& config, const Network& network, int ranks) {
  const auto& parallel = config.parallel;
  if (parallel.recompute) (void)stages_for(config, network, "parallel.recompute");
  if (parallel.pipeline == 1) return;
  const auto stages = stages_for(config, network, "parallel.pipeline");
  if (parallel.pipeline > narrow<std::int64_t>(stages.size())) {
    std::vector<std::string> names;
    for (const auto& stage : stages) names.push_back(stage.name);
    refuse_setting(
        config, "parallel.pipeline",
        fmt::format(
            "{} ranks, but the model {} has {} stages, of which each rank has one or more: {}",
            parallel.pipeline, config.model.name, stages.size(), join(names)));
  }
  require_micro_batches(config, ranks);
}

std::vector<std::string> describe_pipeline(const RunConfig& config, const PipelineCut& cut,
                                           const Datasets& datasets, int ranks) {
  const auto& shape = cut.shape;
  std::vector<std::string> parts;
  for (std::size_t part = 0; part < cut.work.size(); ++part)
    parts.push_back(describe_part(cut, part));
  const auto replicas = replicas_of(config, ranks);
  std::vector<std::string> lines{
      fmt::format("pipeline of {} ranks over {} stages, {}, {} micro-batch{} of {}; {}. {}",
                  shape.ranks, cut.stages.size(), name_of(shape.schedule), shape.micro_batches,
                  shape.micro_batches == 1 ? "" : "es", cut.micro_batch,
                  counted(replicas, "replica"), fmt::join(parts, "; "))};
  if (cut.has_batch_norms) {
    lines.push_back(fmt::format("batch norms see micro-batches of {} samples{}", cut.micro_batch,
                                config.model.sync_batch_norm && replicas > 1
                                    ? fmt::format(" on each of {} replicas", replicas)
                                    : ""));
  }
  const auto of_step =
      checked_multiply<std::int64_t>(batch_size_of(config.training, replicas), replicas);
  if (const auto left = datasets.training->size() % of_step; left > 0 && !config.training.drop_last)
    lines.push_back(fmt::format(
        "each epoch leaves out {} of {} samples, which fill no batch: those of a pipeline are of "
        "one size",
        format_count(left), format_count(datasets.training->size())));
  return lines;
}

RankNetwork make_rank_network(const RankNetworkRequest& request, std::shared_ptr<Network> network,
                              Objective objective) {
  const auto& config = request.config;
  const auto& share = request.share;
  RankNetwork result;
  // Counting passes a sample through the network, so layers must not communicate yet.
  if (share.has_pipeline())
    result.cut = cut_pipeline(config, request.datasets, *network, request.communicator.size());
  const auto& alike = share.has_pipeline() ? share.mesh->replicas() : request.communicator;
  if (config.model.sync_batch_norm && alike.size() > 1) convert_sync_batch_norm(alike, *network);
  share_network(share, request.datasets, *network);
  share_objective(share, request.datasets, objective);
  if (result.cut) {
    result.pipelined = make_pipeline(config, *share.mesh, *result.cut, *network, objective,
                                     request.device, request.options.timeline);
    result.trained = result.pipelined;
  } else {
    move_network(*network, config, request.device);
    result.whole = std::move(network);
    result.trained = make_whole_network(request.communicator, result.whole, std::move(objective),
                                        request.options);
  }
  return result;
}

}  // namespace kolo
