#include "run/work_part.h"

#include <cstdint>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"
#include "kolo/config/factories.h"
#include "kolo/layout/virtual_ranks.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/spatial_part.h"
#include "kolo/train/objective.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/trained_network.h"

namespace kolo {

namespace {

std::vector<std::int64_t> lengths_of(const Datasets& datasets) {
  const auto& shape = datasets.training->layout().input_shape;
  return {shape.begin() + 1, shape.end()};
}

std::string text_of(const SpatialNetworkPlan& plan) {
  return fmt::format("[{}]", fmt::join(plan.shape, ","));
}

SpatialNetworkPlan plan_of(const RunConfig& config, const Datasets& datasets,
                           const Network& network) {
  const auto layers = network.field_layers();
  const auto& layout = datasets.training->layout();
  if (layers.empty()) {
    refuse_setting(
        config, "parallel.spatial",
        fmt::format("[{}], but ranks can't share samples of the model {}, which makes no "
                    "fields; use a model that does (unet3d), or leave it out",
                    fmt::join(config.parallel.spatial, ","), config.model.name));
  }
  const auto lengths = lengths_of(datasets);
  try {
    return plan_spatial_network(layers, lengths, config.parallel.spatial);
  } catch (const InputError& error) {
    std::string fitting;
    auto fewer =
        static_cast<int>(checked_product(std::span<const std::int64_t>(config.parallel.spatial)));
    for (; fewer > 1 && fitting.empty(); --fewer) {
      const auto plans = spatial_plans(layers, lengths, fewer);
      if (!plans.empty())
        fitting = fmt::format("; {} fits {} ranks", text_of(plans.front()), fewer);
    }
    refuse_setting(
        config, "parallel.spatial",
        fmt::format("[{}] can't cut samples of [{}]: {}{}", fmt::join(config.parallel.spatial, ","),
                    fmt::join(layout.input_shape, ", "), error.what(), fitting));
  }
}

// Warns of layers that all ranks compute whole, and names a cut with fewer; empty: there are none.
std::string describe_whole(const SpatialNetworkPlan& plan, const Network& network) {
  const auto whole = describe_whole_layers(plan);
  if (whole.empty()) return {};
  auto text = fmt::format(
      "parallel.spatial {} cuts samples so thin that some layers are computed whole by all {} "
      "ranks: {}",
      text_of(plan), plan.ranks(), whole);
  const auto better = spatial_plans(network.field_layers(), plan.lengths, plan.ranks());
  if (better.empty() || better.front().whole_flops >= plan.whole_flops) return text;
  const auto rest = describe_whole_layers(better.front());
  return fmt::format("{}; {}: {}", text, text_of(better.front()), rest.empty() ? "none" : rest);
}

}  // namespace

void require_sharing(const RunConfig& config, const Datasets& datasets, const Network& network,
                     int ranks) {
  (void)mesh_of(config, ranks);
  (void)sample_cut_of(config, datasets, network);
}

std::vector<FieldLayer> field_layers_of(const RunConfig& config, const SampleLayout& layout,
                                        const ModelCatalogue& models) {
  return make_network(config, layout, models)->field_layers();
}

std::optional<SpatialNetworkPlan> sample_cut_of(const RunConfig& config, const Datasets& datasets,
                                                const Network& network) {
  if (!config.parallel.shares_samples()) return std::nullopt;
  return plan_of(config, datasets, network);
}

SharingText describe_sharing(const RunConfig& config, const Datasets& datasets,
                             const Network& network, int ranks) {
  SharingText text;
  const auto cut = sample_cut_of(config, datasets, network);
  if (!cut) return text;
  const auto& plan = *cut;
  const auto most = most_spatial_bytes(plan, value_bytes(config.training.precision));
  const auto messages = most_spatial_totals(plan).halo_messages;
  constexpr double megabyte = 1e6;
  const auto replicas = replicas_of(config, ranks);
  text.lines.push_back(fmt::format(
      "{} ranks share a sample, cut as {}; {}. Per sample and step a rank sends {:.3g} MB of halos "
      "in {} messages and keeps {:.3g} MB for backward",
      plan.ranks(), text_of(plan), counted(replicas, "replica"),
      static_cast<double>(most.halo) / megabyte, messages,
      static_cast<double>(most.kept) / megabyte));
  if (const auto whole = describe_whole(plan, network); !whole.empty())
    text.warnings.push_back(whole);
  return text;
}

WorkPart part_of_work(const RunConfig& config, const Communicator& communicator) {
  if (const int all = config.training.virtual_ranks; all > 0) {
    const auto parts = parts_of_rank(all, communicator.size(), communicator.rank());
    return {std::nullopt, parts.first, all, parts.size()};
  }
  const auto shape = mesh_of(config, communicator.size());
  WorkPart share{.mesh = std::nullopt, .replica = communicator.rank(), .replicas = shape.ranks()};
  if (shape.length(MeshAxis::data) == shape.ranks()) return share;
  share.mesh.emplace(communicator, config.parallel.mesh());
  share.replica = share.mesh->coordinate(MeshAxis::data);
  share.replicas = share.mesh->length(MeshAxis::data);
  return share;
}

Datasets share_datasets(const WorkPart& share, const Datasets& whole) {
  if (!share.shares_samples()) return whole;
  const auto rows = own_rows(*share.mesh, lengths_of(whole));
  auto part = whole;
  part.training = part_of_samples(whole.training, rows);
  part.validation = part_of_samples(whole.validation, rows);
  return part;
}

void share_objective(const WorkPart& share, const Datasets& whole, Objective& objective) {
  if (!share.shares_samples()) return;
  const auto& group = share.mesh->spatial();
  const auto lengths = lengths_of(whole);
  double part = group.size();
  const auto rows = own_rows(*share.mesh, lengths);
  for (std::size_t i = 0; i < rows.size(); ++i)
    part *= static_cast<double>(rows[i].size()) / static_cast<double>(lengths[i]);
  objective.part = {.rank = group.rank(), .ranks = group.size(), .loss_factor = part};
}

void share_network(const WorkPart& share, const Datasets& whole, Network& network) {
  if (!share.shares_samples()) return;
  network.share_samples(make_spatial_partition(*share.mesh, network, lengths_of(whole)));
}

namespace {

std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t alignment = 64;
  return checked_add(bytes, alignment - 1) / alignment * alignment;
}

std::size_t bytes_of(const std::vector<MemoryLoad>& loads) {
  std::size_t all = 0;
  for (const auto& load : loads) all = checked_add(all, aligned(load.bytes));
  return all;
}

}  // namespace

// Allocates one piece: room for a second one is unknown before the first is written.
void load_data(const Communicator& communicator, Datasets& datasets) {
  const auto loads = std::exchange(datasets.loads, {});
  if (loads.empty()) return;
  const auto bytes = bytes_of(loads);
  const auto& topology = communicator.topology();
  const auto shared = topology.size > 1 ? communicator.allocate_for_node(bytes) : nullptr;
  if (!shared) {
    if (topology.local_size > 1) {
      const auto& instead = loads.front().instead;
      const auto left = available_memory();
      datasets.warnings.push_back(fmt::format(
          "data: each of the {} ranks of a node keeps a copy of the data in memory, as they can't "
          "share {} ({}): take fewer or smaller files{}{}",
          topology.local_size, format_bytes(bytes),
          left ? format_bytes(static_cast<std::uint64_t>(*left)) + " are left"
               : "how much memory is left the system doesn't say",
          instead.empty() ? "" : ", or ", instead));
    }
    for (const auto& load : loads) load_alone(load);
    return;
  }
  std::size_t begin = 0;
  for (const auto& load : loads) {
    load.read({shared, shared.get() + begin}, topology.local_rank, topology.local_size);
    begin += aligned(load.bytes);
  }
  datasets.note_of_loads = fmt::format("{} of data in memory, once for the {} of a node",
                                       format_bytes(bytes), counted(topology.local_size, "rank"));
}

}  // namespace kolo
