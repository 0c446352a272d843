#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kolo/layout/spatial_network.h"
#include "predict_study.h"

namespace kolo {

// A step in which several ranks share each sample (kolo/layout/spatial_network.h), before it is
// ever run.

struct SpatialPrediction {
  StepPrediction step;
  double samples_per_second = 0;  // of all ranks
  // Ideal time over this one: 1 where parts are equal and nothing is waited for. Ideal is what the
  // profile's ranks would take for as many samples, were they as many and without messages.
  double efficiency = 0;
  // For a batch, of the rank that has the most:
  std::int64_t halo_bytes = 0;  // sent, forward and backward
  std::int64_t kept_bytes = 0;  // for backward
  std::int64_t peak_bytes = 0;
};

// The profile is of whole samples on each rank; its batch becomes that of the group of ranks which
// shares it. The groups are neighbours, as in MeshShape: group g has the ranks from g P on. All
// gradients are averaged over all ranks, as predict_step() has it.
//
// Each pass's time is divided among layers by their FLOPs, and among ranks by what they have of
// them, with layers that are computed whole counted on all. Messages of a rank take alpha + n beta
// each, one after another, axis after axis, while the rank waits; between nodes the ranks of a node
// share its connection. Parts are gathered by a ring. While gradients are averaged, messages and
// they have half of the links each. The copies that a rank makes of its own rows are not counted,
// nor are the values that a batch norm exchanges. `element_bytes`: of a value in a halo and in
// memory, but for the loss's.
//
// Error: the layout's ranks are not a multiple of the plan's. InputError: a link that it takes is
// not known. Costs O(layers ranks), of the ranks until nodes and groups begin together again.
[[nodiscard]] SpatialPrediction predict_spatial_step(
    const StepProfile& profile, const SpatialNetworkPlan& plan, const NetworkModel& network,
    const RankLayout& layout, const SimulatorOptions& options = {}, std::int64_t element_bytes = 4);

// One network and its samples on meshes of ranks.
struct SpatialStudy {
  // At the batch of a group of ranks; measured with as many ranks side by side as nodes have, or
  // with one.
  StepProfile profile;
  std::vector<FieldLayer> layers;
  std::vector<std::int64_t> lengths;  // of a sample, by axis
  NetworkModel network;
  SimulatorOptions options;
  int ranks_per_node = 1;
  int cores_per_node = 1;
  int groups = 1;  // of ranks that share samples, side by side: data parallelism
  std::int64_t element_bytes = 4;
};

// A mesh of ranks with what is predicted for it.
struct SpatialPoint {
  SpatialNetworkPlan plan;
  int ranks = 1;  // of all groups
  SpatialPrediction prediction;
};

// A point for each shape: ranks along the axes of a sample, [2,1,1], [2,2,1], ... InputError, as
// plan_spatial_network() and predict_spatial_step().
[[nodiscard]] std::vector<SpatialPoint> predict_spatial_points(
    const SpatialStudy& study, std::span<const std::vector<std::int64_t>> shapes);

}  // namespace kolo
