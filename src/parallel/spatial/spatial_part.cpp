#include "kolo/parallel/spatial_part.h"

#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/parallel/differentiable_collectives.h"

namespace kolo {

namespace {

std::int64_t dimension_of(std::size_t axis) {
  return static_cast<std::int64_t>(axis) + 2;
}

RowRange own_rows_of(const DeviceMesh& mesh, const PartAxis& axis, std::size_t i) {
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

std::vector<RowRange> own_rows(const DeviceMesh& mesh, std::span<const std::int64_t> lengths) {
  const auto axes = cut_samples(mesh, lengths);
  std::vector<RowRange> rows;
  for (std::size_t i = 0; i < axes.size(); ++i) rows.push_back(own_rows_of(mesh, axes[i], i));
  return rows;
}

SpatialPart part_of(const DeviceMesh& mesh, const torch::Tensor& samples) {
  if (samples.dim() < 3 || samples.dim() > 5) {
    throw Error(fmt::format(
        "parallel: samples of {} dimensions can't be cut; expected [N, C, L], [N, C, H, W] or "
        "[N, C, D, H, W]",
        samples.dim()));
  }
  auto axes = cut_samples(mesh, samples.sizes().slice(2));
  auto rows = samples;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto own = own_rows_of(mesh, axes[i], i);
    rows = rows.narrow(dimension_of(i), own.begin, own.size());
  }
  return {rows.clone(samples.suggest_memory_format()), std::move(axes)};
}

torch::Tensor rows_as(const DeviceMesh& mesh, const SpatialPart& part,
                      std::span<const PartAxis> axes) {
  auto tensor = part.tensor;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto& before = part.axes[i];
    if (before.is_whole && !axes[i].is_whole) {
      const auto own = own_rows_of(mesh, axes[i], i);
      tensor = tensor.narrow(dimension_of(i), own.begin, own.size());
    } else if (!before.is_whole && axes[i].is_whole) {
      tensor = gathered_along(mesh, tensor, i);
    }
  }
  return tensor;
}

namespace {

// Along an axis that is not cut LibTorch's layer pads by itself, but for
// output padding, and where oneDNN 2.6 writes outside of a 3-D convolution's weight gradient:
// padded by more than the stride in the first dimension.
bool is_left_to_layer(const AxisLayer& layer) {
  return layer.output_padding == 0 && layer.padding <= layer.stride;
}

// The axis as one rank has all of it.
LayerCut local_cut(const AxisLayer& layer, std::int64_t length) {
  const auto cut = cut_layer(layer, AxisCut{{0, length}});
  if (!cut.is_whole()) return cut;
  throw InputError(
      fmt::format("parallel: a layer that doesn't fit {} rows: {}", length, cut.whole_because));
}

}  // namespace

LayerStep plan_step(const DeviceMesh& mesh, std::span<const PartAxis> input,
                    std::span<const AxisLayer> layers, std::string_view name,
                    std::span<const PartAxis> like) {
  for (const auto axes : {input.size(), like.empty() ? layers.size() : like.size()}) {
    if (axes == layers.size()) continue;
    throw Error(
        fmt::format("parallel: {}: a part with {} axes, expected {}", name, axes, layers.size()));
  }
  LayerStep step;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto& layer = layers[i];
    const auto ranks = input[i].cut.ranks(), expected = mesh.length(spatial_axes[i]);
    if (ranks != expected) {
      throw Error(
          fmt::format("parallel: {}: a part cut among {} ranks along axis {}, expected the {} "
                      "of the layer's mesh",
                      name, ranks, i, expected));
    }
    const auto output = like.empty() ? std::nullopt : std::optional(like[i].cut);
    const auto cut = cut_layer(layer, input[i].cut, output);
    const bool is_shared = ranks > 1;
    const bool is_whole = is_shared && cut.is_whole();
    step.input.push_back({cut.input, is_whole});
    step.output.push_back({cut.output, is_whole});
    const bool is_local = !is_shared || is_whole;
    const bool is_left = is_local && is_left_to_layer(layer);
    step.padding.push_back(is_left ? layer.padding : 0);
    if (is_left) continue;
    step.halos.push_back({i, is_local ? local_cut(layer, cut.input.length()) : cut});
  }
  return step;
}

}  // namespace kolo
