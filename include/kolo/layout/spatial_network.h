#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/layout/spatial_plan.h"

namespace kolo {

// Plan of a network of fields whose samples several ranks share: which layers are computed in
// parts, which rows travel, and what each rank computes and keeps. A pure function of shapes, for
// messages, reports and predictions, by the rules of kolo/parallel/spatial_part.h.
//
// Sizes are in values ("elements") of one sample.

// A convolution, a transposed convolution or a pooling.
struct FieldLayer {
  std::string name;
  // One to three, slowest first, in all layers equally many. Their own `mirrors` is not read.
  std::vector<AxisLayer> axes;
  std::int64_t inputs = 1;   // channels, with those of fields that are concatenated before
  std::int64_t outputs = 1;  // channels
  std::int64_t groups = 1;   // of a pooling: as many as channels
  // For a transposed layer: the earlier layer whose input is as long and cut as this one's output,
  // so that both can be concatenated.
  std::optional<std::size_t> mirrors = std::nullopt;
  bool keeps_output = true;  // backward needs its output, besides a concatenation of it
};

// The layers along one axis, as cut_layers() and reach_of() take them.
[[nodiscard]] std::vector<AxisLayer> layers_along(std::span<const FieldLayer> layers,
                                                  std::size_t axis);

struct SpatialNetworkPlan {
  std::vector<FieldLayer> layers;
  std::vector<std::int64_t> lengths;        // of a sample, by axis
  std::vector<int> shape;                   // ranks along each axis
  std::vector<std::vector<LayerCut>> cuts;  // by layer and axis
  // FLOPs of a whole sample's forward pass, two per multiply-add; a backward pass has twice as
  // many.
  std::int64_t flops = 0;
  std::int64_t whole_flops = 0;  // of those, the ones in layers that are computed whole

  [[nodiscard]] int ranks() const;
  // Tells whether the layer is too small to be cut along the axis, so that the ranks along it
  // compute the same; and whether that is so along any axis.
  [[nodiscard]] bool is_whole(std::size_t layer, std::size_t axis) const;
  [[nodiscard]] bool is_whole(std::size_t layer) const;
  [[nodiscard]] double whole_fraction() const;  // of the FLOPs
};

// Plans layers each of which takes the output of the one before. The shape's axes are the sample's,
// slowest first; missing ones are not cut.
//
// InputError for lengths that can't be cut so or that a layer doesn't take, and for more axes than
// samples have; Error for layers of another number of axes, for channels or groups below 1, and for
// a layer that mirrors none. Costs O(layers ranks).
[[nodiscard]] SpatialNetworkPlan plan_spatial_network(std::span<const FieldLayer> layers,
                                                      std::span<const std::int64_t> lengths,
                                                      std::span<const std::int64_t> shape);

// A message to another rank.
struct HaloMessage {
  int peer = 0;  // in the group of ranks that share the sample, the last axis's neighbour next
  std::size_t axis = 0;
  std::int64_t elements = 0;

  friend bool operator==(const HaloMessage&, const HaloMessage&) = default;
};

// Gathering, by the ranks along an axis, of the input of a layer that they compute whole; backward
// adds up gradients of the same size.
struct HaloGather {
  std::size_t axis = 0;
  std::int64_t elements = 0;  // of the result

  friend bool operator==(const HaloGather&, const HaloGather&) = default;
};

// Part of a layer that one rank has.
struct SpatialLayerPart {
  std::int64_t flops = 0;           // of the forward pass
  std::int64_t input_elements = 0;  // without rows of others
  // Size of the copy of its input that a layer needs: with rows of others, or gathered. 0 for none.
  std::int64_t room_elements = 0;
  std::int64_t output_elements = 0;
  // Messages that the rank sends; none backward for the sample itself, which has no gradient.
  std::vector<HaloMessage> forward, backward;
  std::vector<HaloGather> gathers;
};

// Parts of a rank by layer. Error for a rank outside the group.
[[nodiscard]] std::vector<SpatialLayerPart> spatial_layer_parts(const SpatialNetworkPlan& plan,
                                                                int rank);

// Sums over all layers.
struct SpatialTotals {
  std::int64_t halo_elements = 0;  // sent, forward and backward
  std::int64_t halo_messages = 0;
  // Values that backward needs: the sample, outputs of layers, concatenations, rooms, and the
  // loss's targets and differences.
  std::int64_t kept_elements = 0;
  std::int64_t peak_elements = 0;  // the same and the largest gradient of a layer's input
  std::int64_t loss_elements = 0;  // of both, targets and differences
};

// Largest of each number over all ranks, since all wait for the slowest. Costs O(layers ranks).
[[nodiscard]] SpatialTotals most_spatial_totals(const SpatialNetworkPlan& plan);

// The same in bytes, where a value of a layer has `value_bytes`; the loss's are in float32 always.
struct SpatialBytes {
  std::int64_t halo = 0, kept = 0, peak = 0;
};
[[nodiscard]] SpatialBytes most_spatial_bytes(const SpatialNetworkPlan& plan,
                                              std::int64_t value_bytes);

// All ways in which so many ranks can share a sample of up to three axes, the best first: the
// fewest FLOPs in layers that are computed whole, then the fewest elements that a rank sends, then
// the fewest ranks along the last axes, whose rows lie close together in memory. Empty if none
// fits. Error as plan_spatial_network().
[[nodiscard]] std::vector<SpatialNetworkPlan> spatial_plans(std::span<const FieldLayer> layers,
                                                            std::span<const std::int64_t> lengths,
                                                            int ranks);

// Names of the layers that are computed whole, and their share of the work: "down4 to up4, 15 % of
// the work"; "" for none.
[[nodiscard]] std::string describe_whole_layers(const SpatialNetworkPlan& plan);

}  // namespace kolo
