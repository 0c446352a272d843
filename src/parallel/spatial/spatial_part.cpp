#include "kolo/parallel/spatial_part.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/parallel/differentiable_collectives.h"
#include "kolo/parallel/spatial_step.h"

namespace kolo {

namespace {

std::int64_t dimension_of(std::size_t axis) {
  return static_cast<std::int64_t>(axis) + 2;
}

RowRange rows_on(const DeviceMesh& mesh, const PartAxis& axis, std::size_t i) {
  if (axis.is_whole) return {0, axis.cut.length()};
  return axis.cut.rows(mesh.coordinate(spatial_axes[i]));
}

std::vector<PartAxis> cut_samples(const DeviceMesh& mesh, std::span<const std::int64_t> lengths) {
  for (std::size_t i = 0; i < spatial_axes.size(); ++i) {
    if (mesh.length(spatial_axes[i]) == 1 || i < lengths.size()) continue;
    throw InputError(fmt::format(
        "parallel: samples of [{}] are to be cut along {}; they have {}, so ask for a "
        "mesh of at most {} spatial axes",
        fmt::join(lengths, ", "), mesh.shape().describe(), lengths.size(), lengths.size()));
  }
  std::vector<PartAxis> axes;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    try {
      axes.push_back({cut_evenly(lengths[i], mesh.length(spatial_axes[i]))});
    } catch (const InputError& error) {
      throw InputError(fmt::format("parallel: samples of [{}] on {}, axis {}: {}",
                                   fmt::join(lengths, ", "), mesh.shape().describe(), i,
                                   error.what()));
    }
  }
  return axes;
}

void require_samples(std::int64_t dimensions) {
  if (dimensions >= 3 && dimensions <= 5) return;
  throw Error(fmt::format(
      "parallel: samples of {} dimensions can't be cut; expected [N, C, L], [N, C, H, W] or "
      "[N, C, D, H, W]",
      dimensions));
}

// Rows of the group's tensor, one after another; backward takes this rank's of the sum.
torch::Tensor gathered_along(const DeviceMesh& mesh, const torch::Tensor& tensor,
                             std::size_t axis) {
  const auto format = tensor.suggest_memory_format();
  const auto rows = tensor.movedim(dimension_of(axis), 0);
  return differentiable::all_gather(mesh.axis(spatial_axes[axis]), rows)
      .movedim(0, dimension_of(axis))
      .contiguous(format);
}

}  // namespace

SpatialPart SpatialPart::with(torch::Tensor other) const {
  if (other.dim() != tensor.dim() || other.sizes().slice(2) != tensor.sizes().slice(2)) {
    throw Error(
        fmt::format("parallel: a part of shape [{}] became one of [{}]; expected the same rows",
                    c10::Join(", ", tensor.sizes()), c10::Join(", ", other.sizes())));
  }
  return {std::move(other), axes};
}

std::vector<RowRange> own_rows(const DeviceMesh& mesh, std::span<const std::int64_t> lengths) {
  const auto axes = cut_samples(mesh, lengths);
  std::vector<RowRange> rows;
  for (std::size_t i = 0; i < axes.size(); ++i) rows.push_back(rows_on(mesh, axes[i], i));
  return rows;
}

SpatialPart part_from_rows(const DeviceMesh& mesh, torch::Tensor rows,
                           std::span<const std::int64_t> lengths) {
  require_samples(static_cast<std::int64_t>(lengths.size()) + 2);
  SpatialPart part{std::move(rows), cut_samples(mesh, lengths)};
  std::vector<std::int64_t> expected;
  for (std::size_t i = 0; i < part.axes.size(); ++i)
    expected.push_back(rows_on(mesh, part.axes[i], i).size());
  const auto sizes = part.tensor.sizes();
  if (sizes.size() != lengths.size() + 2 || !std::ranges::equal(sizes.slice(2), expected)) {
    throw Error(fmt::format(
        "parallel: rank {} has a part of shape [{}], but its rows of samples of [{}] are [N, C, "
        "{}]; read those that own_rows() says",
        mesh.spatial().rank(), c10::Join(", ", sizes), fmt::join(lengths, ", "),
        fmt::join(expected, ", ")));
  }
  return part;
}

SpatialPart part_of(const DeviceMesh& mesh, const torch::Tensor& samples) {
  require_samples(samples.dim());
  const auto lengths = samples.sizes().slice(2).vec();
  auto rows = samples;
  const auto own = own_rows(mesh, lengths);
  for (std::size_t i = 0; i < own.size(); ++i)
    rows = rows.narrow(dimension_of(i), own[i].begin, own[i].size());
  return part_from_rows(mesh, rows.clone(samples.suggest_memory_format()), lengths);
}

torch::Tensor rows_as(const DeviceMesh& mesh, const SpatialPart& part,
                      std::span<const PartAxis> axes) {
  auto tensor = part.tensor;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto& before = part.axes[i];
    if (before.is_whole && !axes[i].is_whole) {
      const auto own = axes[i].cut.rows(mesh.coordinate(spatial_axes[i]));
      tensor = tensor.narrow(dimension_of(i), own.begin, own.size());
    } else if (!before.is_whole && axes[i].is_whole) {
      tensor = gathered_along(mesh, tensor, i);
    }
  }
  return tensor;
}

torch::Tensor rows_like(const DeviceMesh& mesh, const SpatialPart& like,
                        const torch::Tensor& samples) {
  SpatialPart whole{samples, like.axes};
  std::vector<std::int64_t> lengths;
  for (auto& axis : whole.axes) {
    lengths.push_back(axis.cut.length());
    axis.is_whole = true;
  }
  if (samples.sizes().size() != lengths.size() + 2 ||
      !std::ranges::equal(samples.sizes().slice(2), lengths)) {
    throw Error(fmt::format("parallel: samples of shape [{}] for a part of samples of [{}]",
                            c10::Join(", ", samples.sizes()), fmt::join(lengths, ", ")));
  }
  return rows_as(mesh, whole, like.axes);
}

torch::Tensor whole_of(const DeviceMesh& mesh, const SpatialPart& part) {
  auto axes = part.axes;
  for (auto& axis : axes) axis.is_whole = axis.is_whole || axis.cut.ranks() > 1;
  return rows_as(mesh, part, axes);
}

SpatialPart concatenate(const DeviceMesh& mesh, std::span<const SpatialPart> parts) {
  if (parts.empty()) throw Error("parallel: no parts to concatenate, expected one or more");
  auto axes = parts.front().axes;
  for (const auto& part : parts) {
    const bool is_alike = std::ranges::equal(part.axes, axes, {}, &PartAxis::cut, &PartAxis::cut);
    if (!is_alike) {
      throw Error(fmt::format(
          "parallel: parts of shapes [{}] and [{}] are cut differently; a transposed layer cuts "
          "its "
          "output as another part when it is given that part",
          c10::Join(", ", parts.front().tensor.sizes()), c10::Join(", ", part.tensor.sizes())));
    }
    for (std::size_t i = 0; i < axes.size(); ++i)
      axes[i].is_whole = axes[i].is_whole && part.axes[i].is_whole;
  }
  std::vector<torch::Tensor> tensors;
  for (const auto& part : parts) tensors.push_back(rows_as(mesh, part, axes));
  return {torch::cat(tensors, 1), std::move(axes)};
}

std::int64_t copies_of(const DeviceMesh& mesh, const SpatialPart& part) {
  std::int64_t copies = 1;
  for (std::size_t i = 0; i < part.axes.size(); ++i) {
    if (part.axes[i].is_whole) copies *= mesh.length(spatial_axes[i]);
  }
  return copies;
}

double loss_factor(const DeviceMesh& mesh, const SpatialPart& part) {
  double factor = 1;
  for (std::size_t i = 0; i < part.axes.size(); ++i) {
    const auto& axis = part.axes[i];
    if (axis.is_whole) continue;
    factor *= static_cast<double>(rows_on(mesh, axis, i).size() * axis.cut.ranks()) /
              static_cast<double>(axis.cut.length());
  }
  return factor;
}

}  // namespace kolo
