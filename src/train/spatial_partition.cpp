#include <utility>
#include <vector>

#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/layout/spatial_network.h"
#include "kolo/parallel/halo_exchange.h"
#include "kolo/parallel/spatial_part.h"
#include "kolo/train/trained_network.h"

namespace kolo {

namespace {

using PartAxes = std::vector<PartAxis>;

// A layer between what comes in, cut in this way, and what is wanted of it.
struct PlannedLayer {
  PartAxes input;
  LayerStep step;
  PartAxes output;
  bool is_transposed = false;
};

std::vector<PlannedLayer> plan_layers(const DeviceMesh& mesh, const Network& network,
                                      std::span<const std::int64_t> lengths) {
  const auto layers = network.field_layers();
  if (layers.empty()) {
    throw InputError(
        "parallel.spatial: samples of this model can't be shared by several ranks, which takes a "
        "network of fields, such as unet3d; leave parallel.spatial out");
  }
  PartAxes axes;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    axes.push_back({cut_evenly(lengths[i], mesh.length(spatial_axes[i]))});
  std::vector<PlannedLayer> planned;
  for (const auto& layer : layers) {
    PlannedLayer next{.input = axes, .is_transposed = layer.axes.front().is_transposed};
    const auto like = layer.mirrors ? planned.at(*layer.mirrors).input : PartAxes{};
    next.step = plan_step(mesh, axes, layer.axes, layer.name, like);
    next.output = layer.mirrors ? like : next.step.output;
    axes = next.output;
    planned.push_back(std::move(next));
  }
  return planned;
}

class SharedLayer final : public LayerPart {
 public:
  SharedLayer(DeviceMesh mesh, PlannedLayer layer)
      : mesh_(std::move(mesh)), layer_(std::move(layer)) {}

  [[nodiscard]] torch::Tensor input_rows(const torch::Tensor& input) const override {
    const auto rows = rows_as(mesh_, {input, layer_.input}, layer_.step.input);
    return layer_.is_transposed ? rows : extend_halos(mesh_, rows, layer_.step.halos);
  }
  [[nodiscard]] std::span<const std::int64_t> padding() const override {
    return layer_.step.padding;
  }
  [[nodiscard]] bool adds_rows() const override {
    return layer_.is_transposed && !layer_.step.halos.empty();
  }
  [[nodiscard]] torch::Tensor output_rows(const torch::Tensor& output) const override {
    const auto rows = layer_.is_transposed ? fold_halos(mesh_, output, layer_.step.halos) : output;
    return rows_as(mesh_, {rows, layer_.step.output}, layer_.output);
  }

 private:
  DeviceMesh mesh_;
  PlannedLayer layer_;
};

class PlannedPartition final : public Partition {
 public:
  PlannedPartition(const DeviceMesh& mesh, std::vector<PlannedLayer> layers) {
    for (auto& layer : layers)
      layers_.push_back(std::make_shared<const SharedLayer>(mesh, std::move(layer)));
  }
  [[nodiscard]] std::shared_ptr<const LayerPart> layer(std::size_t index) const override {
    return layers_.at(index);
  }

 private:
  std::vector<std::shared_ptr<const LayerPart>> layers_;
};

}  // namespace

std::shared_ptr<const Partition> make_spatial_partition(const DeviceMesh& mesh,
                                                        const Network& network,
                                                        std::span<const std::int64_t> lengths) {
  return std::make_shared<const PlannedPartition>(mesh, plan_layers(mesh, network, lengths));
}

}  // namespace kolo
