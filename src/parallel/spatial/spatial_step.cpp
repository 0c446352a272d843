#include "kolo/parallel/spatial_step.h"

#include <optional>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// Along an axis that is not cut LibTorch's layer pads by itself, but for other rows than zeros, for
// output padding, and where oneDNN 2.6 writes outside of a 3-D convolution's weight gradient:
// padded by more than the stride in the first dimension.
bool is_left_to_layer(const AxisLayer& layer) {
  return !layer.is_periodic && layer.output_padding == 0 && layer.padding <= layer.stride;
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
