#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/layout/spatial_plan.h"

namespace kolo {

// A network of fields whose samples several ranks share, before anything of it exists: which layers
// are computed in parts, which rows travel, and what each rank computes and keeps. A pure function
// of shapes, for messages to users, for reports and for predictions. It follows the same rules as
// kolo/parallel/spatial_part.h.
//
// Everything counts values ("elements") of one sample; times the size of a type they are bytes.

// A convolution, a transposed convolution or a pooling.
struct FieldLayer {
  std::string name;
  // One to three, slowest first, in all layers equally many. Their own `mirrors` is not read.
  std::vector<AxisLayer> axes;
  std::int64_t inputs = 1;   // channels, with those of fields that are concatenated before
  std::int64_t outputs = 1;  // channels
  std::int64_t groups = 1;   // of a pooling: as many as channels
  // Of a transposed layer: the earlier layer whose input is as long and cut as this one's output,
  // so that both can be concatenated where they are.
  std::optional<std::size_t> mirrors = std::nullopt;
  // Whether backward needs what it makes, besides in what it is concatenated to.
  bool keeps_output = true;
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
  // Whether the layer is too small to be cut along the axis, so that the ranks along it compute the
  // same; and whether that is so along any axis.
  [[nodiscard]] bool is_whole(std::size_t layer, std::size_t axis) const;
  [[nodiscard]] bool is_whole(std::size_t layer) const;
  [[nodiscard]] double whole_share() const;  // of the FLOPs
};

// Each layer takes what the one before it makes. The shape's axes are the sample's, slowest first;
// axes that it lacks are not cut.
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

// Parts that the ranks along an axis gather before a layer that they compute whole; backward adds
// up gradients of the same size.
struct HaloGather {
  std::size_t axis = 0;
  std::int64_t elements = 0;  // of the result

  friend bool operator==(const HaloGather&, const HaloGather&) = default;
};

// Share of a layer that one rank has.
struct SpatialLayerShare {
  std::int64_t flops = 0;           // of the forward pass
  std::int64_t input_elements = 0;  // without rows of others
  // Size of the copy of its input that a layer needs: with rows of others, or gathered. 0 for none.
  std::int64_t room_elements = 0;
  std::int64_t output_elements = 0;
  // That the rank sends. Nothing backward for what comes from the sample itself, which has no
  // gradient.
  std::vector<HaloMessage> forward, backward;
  std::vector<HaloGather> gathers;
};

// By layer. Error for a rank outside the group.
[[nodiscard]] std::vector<SpatialLayerShare> spatial_share(const SpatialNetworkPlan& plan,
                                                           int rank);

// Sums over all layers.
struct SpatialTotals {
  std::int64_t halo_elements = 0;  // sent, forward and backward
  std::int64_t halo_messages = 0;
  // Values that backward needs: the sample, what layers make and what is concatenated of it, rooms,
  // and the loss's targets and differences.
  std::int64_t kept_elements = 0;
  // With the largest gradient of a layer's input, by when the differences have become a gradient.
  std::int64_t peak_elements = 0;
};

// The most that any rank has, of each number by itself: for a step of a batch all wait for the
// slowest. Costs O(layers) for each kind of rank, of which there are few.
[[nodiscard]] SpatialTotals most_spatial_totals(const SpatialNetworkPlan& plan);

// All ways in which that many ranks can share a sample of up to three axes, the best first: with
// the fewest FLOPs in layers that are computed whole, then with the fewest elements that a rank
// sends, then with the fewest ranks along the last axes, whose rows lie close together in memory.
// Empty where none fits. The same errors but for lengths.
[[nodiscard]] std::vector<SpatialNetworkPlan> spatial_plans(std::span<const FieldLayer> layers,
                                                            std::span<const std::int64_t> lengths,
                                                            int ranks);

// Which layers are computed whole, and how much of the work they are: "down4 to up4, 15 % of the
// work"; "" for none.
[[nodiscard]] std::string describe_whole_layers(const SpatialNetworkPlan& plan);

}  // namespace kolo
