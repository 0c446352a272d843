#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>

#include "kolo/layout/spatial_network.h"
#include "kolo/parallel/spatial_layers.h"
#include "support/rank_test.h"

// What layers send is what the plan of the network (kolo/layout/spatial_network.h) says.
namespace kolo::testing {

namespace {

constexpr std::int64_t batch_size = 2;

using Sent = std::vector<std::pair<int, std::int64_t>>;  // peer and elements

class HaloListener : public CollectiveListener {
 public:
  void on_submit(const CollectiveCall& call) noexcept override {
    if (call.collective != Collective::send || call.name != "halo") return;
    const std::lock_guard lock(mutex_);
    sent_.emplace_back(call.peer, call.count);
  }
  [[nodiscard]] Sent sent() {
    const std::lock_guard lock(mutex_);
    auto sorted = sent_;
    std::ranges::sort(sorted);
    return sorted;
  }

 private:
  std::mutex mutex_;
  Sent sent_;
};

FieldLayer field_layer(const AxisLayer& axis, std::int64_t inputs, std::int64_t outputs) {
  return {.name = "layer", .axes = {axis, axis, axis}, .inputs = inputs, .outputs = outputs};
}

// A small U-Net: the same size, two levels down and up, the same size.
std::vector<FieldLayer> planned_layers() {
  const AxisLayer same{.kernel = 3, .padding = 1}, half{.kernel = 4, .stride = 2, .padding = 1};
  auto twice = half;
  twice.is_transposed = true;
  std::vector<FieldLayer> layers{field_layer(same, 2, 4),   field_layer(half, 4, 6),
                                 field_layer(half, 6, 6),   field_layer(twice, 6, 6),
                                 field_layer(twice, 12, 4), field_layer(same, 8, 1)};
  layers[3].mirrors = 2;
  layers[4].mirrors = 1;
  return layers;
}

torch::nn::Conv3dOptions options_of(const FieldLayer& layer) {
  const auto& axis = layer.axes.front();
  return torch::nn::Conv3dOptions(layer.inputs, layer.outputs, axis.kernel)
      .stride(axis.stride)
      .padding(axis.padding);
}
torch::nn::ConvTranspose3dOptions transposed_options_of(const FieldLayer& layer) {
  const auto& axis = layer.axes.front();
  return torch::nn::ConvTranspose3dOptions(layer.inputs, layer.outputs, axis.kernel)
      .stride(axis.stride)
      .padding(axis.padding);
}

// Forward and backward of the layers as they are planned.
void run_network(const DeviceMesh& mesh, const std::vector<std::int64_t>& lengths) {
  const auto layers = planned_layers();
  SpatialConv3d top(mesh, options_of(layers[0])), down1(mesh, options_of(layers[1])),
      down2(mesh, options_of(layers[2])), last(mesh, options_of(layers[5]));
  SpatialConvTranspose3d up2(mesh, transposed_options_of(layers[3])),
      up1(mesh, transposed_options_of(layers[4]));
  const auto input =
      part_of(mesh, torch::ones({batch_size, 2, lengths[0], lengths[1], lengths[2]}));
  const auto level0 = top(input), level1 = down1(level0), level2 = down2(level1);
  const auto back1 = concatenate(mesh, std::vector{up2->forward_like(level2, level1), level1});
  const auto back0 = concatenate(mesh, std::vector{up1->forward_like(back1, level0), level0});
  last(back0).tensor.sum().backward();
}

Sent planned(const SpatialNetworkPlan& plan, int rank) {
  Sent sent;
  for (const auto& share : spatial_share(plan, rank)) {
    for (const auto* messages : {&share.forward, &share.backward}) {
      for (const auto& message : *messages)
        sent.emplace_back(message.peer, batch_size * message.elements);
    }
  }
  std::ranges::sort(sent);
  return sent;
}

std::vector<std::vector<std::int64_t>> shapes_for(std::int64_t ranks) {
  if (ranks == 4) return {{4, 1, 1}, {2, 2, 1}, {1, 2, 2}};
  if (ranks == 6) return {{3, 1, 2}};
  if (ranks == 8) return {{2, 2, 2}};
  return {{ranks, 1, 1}, {1, 1, ranks}};
}

RANK_TEST(HaloPlan, LayersSendWhatIsPlanned) {
  // 8 rows in four parts have a level that is computed whole.
  for (const auto& lengths :
       {std::vector<std::int64_t>{16, 16, 16}, std::vector<std::int64_t>{8, 12, 12}}) {
    for (const auto& shape : shapes_for(communicator.size())) {
      const DeviceMesh mesh(communicator, {.spatial = shape});
      const auto listener = std::make_shared<HaloListener>();
      mesh.spatial().add_listener(listener);
      run_network(mesh, lengths);
      mesh.spatial().remove_listener(listener);
      const auto plan = plan_spatial_network(planned_layers(), lengths, shape);
      EXPECT_EQ(listener->sent(), planned(plan, mesh.spatial().rank()))
          << mesh.shape().describe() << ", rank " << communicator.rank();
    }
  }
}

}  // namespace

}  // namespace kolo::testing
