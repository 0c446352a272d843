#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kolo/base/enum_names.h"

namespace kolo {

// Axes of a mesh of ranks, slowest first: neighbours along the last axis are ranks r and r + 1,
// which mostly share a node. So the axis that communicates most comes last (Narayanan et al.,
// arXiv:2104.04473, section 3): a tensor's parts at every product, spatial neighbours at every
// layer, replicas once per step, stages of a pipeline one tensor per micro-batch.
enum class MeshAxis { pipe, data, spatial0, spatial1, spatial2, tensor };

constexpr auto enum_names(MeshAxis) {
  return std::to_array<EnumName<MeshAxis>>({{MeshAxis::pipe, "pipe"},
                                            {MeshAxis::data, "data"},
                                            {MeshAxis::spatial0, "spatial0"},
                                            {MeshAxis::spatial1, "spatial1"},
                                            {MeshAxis::spatial2, "spatial2"},
                                            {MeshAxis::tensor, "tensor"}});
}

inline constexpr std::size_t mesh_axes = 6;
// Axes of the ranks that share a sample.
inline constexpr std::array spatial_axes{MeshAxis::spatial0, MeshAxis::spatial1,
                                         MeshAxis::spatial2};
// Axes of the ranks that hold the same parameters, whose gradients are averaged.
inline constexpr std::array replica_axes{MeshAxis::data, MeshAxis::spatial0, MeshAxis::spatial1,
                                         MeshAxis::spatial2};

// A rank's place along each axis, in the order of MeshAxis.
using MeshCoordinates = std::array<int, mesh_axes>;

// Number of ranks along each axis, as a configuration asks for.
struct MeshRequest {
  std::int64_t data = -1;             // -1: what is left
  std::vector<std::int64_t> spatial;  // up to three axes, a sample's slowest first
  std::int64_t pipeline = 1;
  std::int64_t tensor = 1;
};

// Arguments of Communicator::split() for a rank.
struct SplitKey {
  int colour = 0;  // equal for the ranks of a group; from 0 on, without gaps
  int key = 0;     // the rank in the group, in the order of ranks

  friend bool operator==(const SplitKey&, const SplitKey&) = default;
};

// A mesh of ranks with named axes: a pure function of the number of ranks and the request, so that
// ranks which agree on those agree on the mesh. A group along one or several axes has the ranks
// that differ in these coordinates alone.
class MeshShape {
 public:
  // InputError that says what would fit, for lengths below 1, more than three spatial axes, or a
  // product that is not the number of ranks.
  explicit MeshShape(int ranks, const MeshRequest& request = {});

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int length(MeshAxis axis) const;
  // Ranks in each group along the axes.
  [[nodiscard]] int length(std::span<const MeshAxis> axes) const;

  // Error for a rank, or for coordinates, outside the mesh.
  [[nodiscard]] MeshCoordinates coordinates_of(int rank) const;
  [[nodiscard]] int rank_of(const MeshCoordinates& coordinates) const;

  [[nodiscard]] SplitKey split_of(int rank, std::span<const MeshAxis> axes) const;

  // "pipeline 2 x data 3 x spatial [2,1,1]": the axes with more than one rank.
  [[nodiscard]] std::string describe() const;

 private:
  int ranks_;
  std::array<int, mesh_axes> lengths_{};
  std::size_t spatial_count_;  // axes that were asked for, for describe()
};

}  // namespace kolo
