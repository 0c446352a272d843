#include "kolo/parallel/device_mesh.h"

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

using AxisLengths = std::array<int, mesh_axes>;

AxisLengths lengths_of(const MeshShape& shape) {
  AxisLengths lengths{};
  for (std::size_t i = 0; i < mesh_axes; ++i) lengths[i] = shape.length(static_cast<MeshAxis>(i));
  return lengths;
}

// Ranks of different meshes would be put into groups that fit none of them.
void require_one_mesh(const Communicator& world, const MeshShape& shape) {
  const auto mine = lengths_of(shape);
  std::vector<int> all(static_cast<std::size_t>(world.size()) * mesh_axes);
  world.all_gather(std::span(mine), std::span(all), {.name = "device mesh"});
  for (int rank = 1; rank < world.size(); ++rank) {
    const auto first = std::span(all).first(mesh_axes);
    const auto other =
        std::span(all).subspan(static_cast<std::size_t>(rank) * mesh_axes, mesh_axes);
    if (std::ranges::equal(first, other)) continue;
    throw Error(
        fmt::format("parallel: device mesh: rank 0 asks for the lengths [{}], rank {} for [{}] "
                    "(pipe, data, three spatial ones, tensor); ask for the same on all ranks",
                    fmt::join(first, ","), rank, fmt::join(other, ",")));
  }
}

// Name in timelines of the ranks that differ along these axes.
std::string group_name(std::span<const MeshAxis> axes) {
  if (axes.front() == MeshAxis::pipe) return "pipeline";
  if (axes.front() == MeshAxis::data) return "replicas";
  return axes.front() == MeshAxis::tensor ? "tensor" : "halos";
}

// Communicator of the ranks that differ along these axes alone.
Communicator make_group(const Communicator& world, const MeshShape& shape,
                        std::span<const MeshAxis> axes) {
  const auto ranks = shape.length(axes);
  if (ranks == 1) return Communicator::solo();
  if (ranks == world.size()) return world.with_own_order(group_name(axes));
  const auto split = shape.split_of(world.rank(), axes);
  return world.split(split.colour, split.key, group_name(axes)).value();
}

}  // namespace

DeviceMesh::DeviceMesh(const Communicator& world, const MeshRequest& request)
    : shape_(world.size(), request),
      coordinates_(shape_.coordinates_of(world.rank())),
      world_(world) {
  require_one_mesh(world, shape_);
  // Each set of ranks is made once, in the same order on all ranks.
  std::map<std::vector<MeshAxis>, Communicator> made;
  const auto along = [&](std::span<const MeshAxis> axes) {
    std::vector<MeshAxis> longer;
    for (const auto axis : axes) {
      if (shape_.length(axis) > 1) longer.push_back(axis);
    }
    const auto known = made.find(longer);
    if (known != made.end()) return known->second;
    return made.emplace(longer, make_group(world, shape_, longer)).first->second;
  };
  for (std::size_t i = 0; i < mesh_axes; ++i) {
    const auto axis = static_cast<MeshAxis>(i);
    axes_[i] = along(std::span(&axis, 1));
  }
  spatial_ = along(spatial_axes);
  replicas_ = along(replica_axes);
}

int DeviceMesh::coordinate(MeshAxis axis) const {
  return coordinates_[static_cast<std::size_t>(axis)];
}

const Communicator& DeviceMesh::axis(MeshAxis axis) const {
  return *axes_[static_cast<std::size_t>(axis)];
}

}  // namespace kolo
