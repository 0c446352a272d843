#pragma once

#include <array>
#include <optional>

#include "kolo/comm/communicator.h"
#include "kolo/layout/mesh_shape.h"

namespace kolo {

// A mesh of ranks that can talk along its axes: a MeshShape and the communicators of this rank's
// groups. A cheap handle, as communicators are: copies mean the same groups.
//
// The groups' communicators are the mesh's own, in orders of their own: what is called on them
// shares no order with what is called on the communicator that the mesh was made from, nor with a
// GradientReducer over that or over replicas(). Two axes share one communicator where they mean
// the same ranks.
class DeviceMesh {
 public:
  // Collective: all ranks of `world`, with the same request; a set of ranks for each group of two
  // or more, so make a mesh once, not in a loop. InputError, on all ranks, for a request that
  // doesn't fit the number of ranks (MeshShape says what would), Error where ranks ask for
  // different ones.
  explicit DeviceMesh(const Communicator& world, const MeshRequest& request = {});

  [[nodiscard]] const MeshShape& shape() const { return shape_; }
  [[nodiscard]] int length(MeshAxis axis) const { return shape_.length(axis); }
  // Coordinate of this rank along an axis.
  [[nodiscard]] int coordinate(MeshAxis axis) const;

  // Communicator that the mesh was made from.
  [[nodiscard]] const Communicator& world() const { return world_; }
  // The ranks that differ from this one along the axis alone; its rank there is its coordinate.
  [[nodiscard]] const Communicator& axis(MeshAxis axis) const;
  // The ranks that share a sample, slowest axis first.
  [[nodiscard]] const Communicator& spatial() const { return *spatial_; }
  // The ranks with the same parameters, whose gradients are averaged: along data and spatial axes.
  [[nodiscard]] const Communicator& replicas() const { return *replicas_; }

 private:
  MeshShape shape_;
  MeshCoordinates coordinates_;
  Communicator world_;
  // By axis; all are set.
  std::array<std::optional<Communicator>, mesh_axes> axes_;
  std::optional<Communicator> spatial_, replicas_;
};

}  // namespace kolo
