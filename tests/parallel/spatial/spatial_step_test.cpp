#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/layout/spatial_network.h"
#include "kolo/parallel/spatial_part.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/spatial/spatial_cases.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

DeviceMesh mesh_along(const Communicator& communicator, std::vector<std::int64_t> spatial) {
  return DeviceMesh(communicator, {.data = 1, .spatial = std::move(spatial)});
}

torch::Tensor whole_of(const DeviceMesh& mesh, const SpatialPart& part) {
  auto axes = part.axes;
  for (auto& axis : axes) axis.is_whole = axis.is_whole || axis.cut.ranks() > 1;
  return rows_as(mesh, part, axes);
}

RANK_TEST(SpatialPart, PartsMakeTheWhole) {
  on_meshes(communicator, [](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random) {
    std::vector<std::int64_t> shape = {2, 3};
    for (const auto length : random_lengths(random, mesh, axes)) shape.push_back(length);
    const auto whole = waves(shape, .7);
    auto part = part_of(mesh, whole);
    part.tensor.requires_grad_();
    const auto gathered = whole_of(mesh, part);
    EXPECT_TRUE(torch::equal(gathered, whole));
    // Each rank looks at all of it, so each row's gradient comes from all of them.
    (gathered * gathered.detach()).sum().backward();
    EXPECT_LT(relative_difference(part.tensor.grad(), part.tensor.detach() * mesh.spatial().size()),
              1e-14);
  });
}

RANK_TEST(SpatialPart, HasTheRowsThatAreReadByThemselves) {
  const auto mesh = mesh_along(communicator, {1, communicator.size()});
  const std::vector<std::int64_t> lengths = {3, 2 * communicator.size() + 1};
  const auto rows = own_rows(mesh, lengths);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0], (RowRange{0, 3}));
  const auto whole = waves({1, 1, lengths[0], lengths[1]}, .3);
  EXPECT_TRUE(
      torch::equal(part_of(mesh, whole).tensor, whole.slice(3, rows[1].begin, rows[1].end)));
}

RANK_TEST(SpatialPart, ShapesThatCantBeCutAreOneErrorThatSaysWhatFits) {
  const std::int64_t ranks = communicator.size();
  if (ranks == 1) return;
  const auto mesh = mesh_along(communicator, {1, ranks});
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     (void)part_of(mesh, torch::zeros({1, 1, 9, ranks - 1}));
                   }),
                   {"axis 1", "cut this axis in " + std::to_string(ranks - 1)}));
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     (void)part_of(mesh, torch::zeros({1, 1, 99}));
                   }),
                   {"at most 1 spatial axes"}));
}

// Convolutions computed in parts, as plan_step() has them: what they make beside LibTorch's on the
// whole sample, and what they send beside the plan of the network
// (kolo/layout/spatial_network.h).

std::vector<std::int64_t> along_all(const std::vector<AxisLayer>& layers,
                                    std::int64_t AxisLayer::*length) {
  std::vector<std::int64_t> lengths;
  for (const auto& layer : layers) lengths.push_back(layer.*length);
  return lengths;
}

// LibTorch's layer of these axes, with the padding that is left to it.
torch::Tensor convolved(const torch::Tensor& input, const torch::Tensor& weight,
                        const std::vector<AxisLayer>& layers,
                        const std::vector<std::int64_t>& padding,
                        const std::vector<std::int64_t>& output_padding) {
  return torch::convolution(input, weight, {}, along_all(layers, &AxisLayer::stride), padding,
                            along_all(layers, &AxisLayer::dilation), layers.front().is_transposed,
                            output_padding, 1);
}

// This rank's part of the layer's output; `like`: see plan_step().
SpatialPart computed(const DeviceMesh& mesh, const SpatialPart& input, const torch::Tensor& weight,
                     const std::vector<AxisLayer>& layers, const std::vector<PartAxis>& like = {}) {
  const auto step = plan_step(mesh, input.axes, layers, "layer", like);
  const std::vector<std::int64_t> none(layers.size(), 0);
  auto rows = rows_as(mesh, input, step.input);
  if (!layers.front().is_transposed)
    return {convolved(extend_halos(mesh, rows, step.halos), weight, layers, step.padding, none),
            step.output};
  rows = fold_halos(mesh, convolved(rows, weight, layers, step.padding, none), step.halos);
  if (like.empty()) return {rows, step.output};
  return {rows_as(mesh, {rows, step.output}, like), like};
}

constexpr std::int64_t inputs = 2, outputs = 3;

std::vector<std::int64_t> weight_shape(const std::vector<AxisLayer>& layers) {
  std::vector<std::int64_t> shape = {outputs, inputs};
  if (layers.front().is_transposed) std::swap(shape[0], shape[1]);
  for (const auto& layer : layers) shape.push_back(layer.kernel);
  return shape;
}

// Compares forward and backward in float64.
void expect_alike(const DeviceMesh& mesh, const std::vector<std::int64_t>& lengths,
                  const std::vector<AxisLayer>& layers) {
  const auto& layer = layers.front();
  SCOPED_TRACE(fmt::format("{}kernel {}, stride {}, padding {}, dilation {} of [{}] on {}",
                           layer.is_transposed ? "transposed, " : "", layer.kernel, layer.stride,
                           layer.padding, layer.dilation, fmt::join(lengths, ", "),
                           mesh.shape().describe()));
  std::vector<std::int64_t> shape = {2, inputs};
  shape.insert(shape.end(), lengths.begin(), lengths.end());
  const auto whole = waves(shape, .37).requires_grad_();
  const auto weight = waves(weight_shape(layers), .71).requires_grad_();
  const std::vector<std::int64_t> none(layers.size(), 0);
  const auto expected =
      convolved(whole, weight, layers, along_all(layers, &AxisLayer::padding),
                layer.is_transposed ? along_all(layers, &AxisLayer::output_padding) : none);
  const auto slope = waves(expected.sizes().vec(), 1.7);
  (expected * slope).sum().backward();

  auto part = part_of(mesh, whole.detach());
  part.tensor.requires_grad_();
  const auto own_weight = weight.detach().clone().requires_grad_();
  const auto output = computed(mesh, part, own_weight, layers);
  const auto gathered = whole_of(mesh, output);
  EXPECT_LE(relative_difference(gathered.detach(), expected.detach()), 1e-12);
  // Each rank's loss is of the whole output.
  ((gathered * slope).sum() / mesh.spatial().size()).backward();
  EXPECT_LE(relative_difference(part.tensor.grad(), part_of(mesh, whole.grad()).tensor), 1e-12);
  EXPECT_LE(relative_difference(all_reduced(mesh.spatial(), own_weight.grad()), weight.grad()),
            1e-12);
}

constexpr AxisLayer windows[] = {{4, 2, 1}, {3, 1, 1},    {3, 2, 1}, {7, 2, 3},
                                 {1, 2, 0}, {3, 1, 2, 2}, {2, 2, 0}, {5, 1, 0}};

RANK_TEST(SpatialStep, MakesWhatLibTorchMakesOfTheWhole) {
  on_meshes(communicator, [](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random) {
    for (const auto& layer : windows) {
      const auto least = layer.dilation * (layer.kernel - 1) + 1 - 2 * layer.padding;
      expect_alike(mesh, random_lengths(random, mesh, axes, least),
                   std::vector<AxisLayer>(axes, layer));
    }
  });
}

RANK_TEST(SpatialStep, TransposedToo) {
  on_meshes(communicator, [](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random) {
    for (auto layer : windows) {
      layer.is_transposed = true;
      layer.output_padding =
          random.below(static_cast<std::uint32_t>(std::max(layer.stride, layer.dilation)));
      // Several rows more than the least that leaves one.
      const auto least =
          (2 * layer.padding - layer.dilation * (layer.kernel - 1)) / layer.stride + 2;
      expect_alike(mesh, random_lengths(random, mesh, axes, least),
                   std::vector<AxisLayer>(axes, layer));
    }
  });
}

RANK_TEST(SpatialStep, WhatCantBeComputedIsRefused) {
  const DeviceMesh mesh(communicator, {.data = 1, .spatial = {communicator.size(), 1}});
  const auto part = part_of(mesh, torch::zeros({1, 1, 8, 8}));
  const std::vector<AxisLayer> layers(2, AxisLayer{.kernel = 9});
  EXPECT_TRUE(
      says(message_of<InputError>([&] { (void)plan_step(mesh, part.axes, layers, "layer"); }),
           {"leaves no row of 8"}));
  const std::vector<AxisLayer> of_one_axis(1, AxisLayer{.kernel = 3});
  EXPECT_TRUE(
      says(message_of<Error>([&] { (void)plan_step(mesh, part.axes, of_one_axis, "layer"); }),
           {"layer: a part with 2 axes, expected 1"}));
}

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

FieldLayer field_layer(const AxisLayer& axis, std::int64_t from, std::int64_t to) {
  return {.name = "layer", .axes = {axis, axis, axis}, .inputs = from, .outputs = to};
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

// Forward and backward of the layers as they are planned.
void run_network(const DeviceMesh& mesh, const std::vector<std::int64_t>& lengths) {
  const auto layers = planned_layers();
  std::vector<SpatialPart> of_layer;  // what each takes
  of_layer.push_back(
      part_of(mesh, torch::ones({batch_size, 2, lengths[0], lengths[1], lengths[2]})));
  for (const auto& layer : layers) {
    const auto& axis = layer.axes.front();
    std::vector<std::int64_t> shape(5, axis.kernel);
    shape[0] = axis.is_transposed ? layer.inputs : layer.outputs;
    shape[1] = axis.is_transposed ? layer.outputs : layer.inputs;
    const auto weight = torch::ones(shape).requires_grad_();
    if (!layer.mirrors) {
      of_layer.push_back(computed(mesh, of_layer.back(), weight, layer.axes));
      continue;
    }
    const auto& skipped = of_layer.at(*layer.mirrors);
    auto made = computed(mesh, of_layer.back(), weight, layer.axes, skipped.axes);
    made.tensor = torch::cat({made.tensor, skipped.tensor}, 1);
    of_layer.push_back(made);
  }
  of_layer.back().tensor.sum().backward();
}

Sent planned(const SpatialNetworkPlan& plan, int rank) {
  Sent sent;
  for (const auto& part : spatial_layer_parts(plan, rank)) {
    for (const auto* messages : {&part.forward, &part.backward}) {
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

RANK_TEST(SpatialStep, SendsWhatIsPlanned) {
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
