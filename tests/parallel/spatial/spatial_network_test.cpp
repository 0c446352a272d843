#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/optim/sgd.h>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/parameter_arena.h"
#include "kolo/parallel/sharded_arena_optimizer.h"
#include "kolo/parallel/spatial_layers.h"
#include "parallel/spatial/layer_check.h"
#include "support/rank_test.h"

// A small U-Net whose lowest level is too small to be cut, trained with an ordinary reducer.
namespace kolo::testing {

namespace {

constexpr int steps = 10;

// What the networks have in common: their options.
// (Without a bias, which has no gradient before a batch norm but rounding errors.)
torch::nn::Conv3dOptions same_size(std::int64_t from, std::int64_t to) {
  return torch::nn::Conv3dOptions(from, to, 3).padding(1).bias(false);
}
torch::nn::Conv3dOptions half_size(std::int64_t from, std::int64_t to) {
  return torch::nn::Conv3dOptions(from, to, 4).stride(2).padding(1).bias(false);
}
torch::nn::ConvTranspose3dOptions double_size(std::int64_t from, std::int64_t to) {
  return torch::nn::ConvTranspose3dOptions(from, to, 4).stride(2).padding(1);
}
torch::nn::BatchNormOptions norm_of(std::int64_t channels) {
  return torch::nn::BatchNormOptions(channels);
}

struct SharedNet : torch::nn::Module {
  explicit SharedNet(const DeviceMesh& mesh_)
      : mesh(mesh_),
        top(register_module("top", SpatialConv3d(mesh, same_size(2, 4)))),
        norm(register_module("norm", SpatialBatchNorm(mesh, norm_of(4)))),
        down1(register_module("down1", SpatialConv3d(mesh, half_size(4, 6)))),
        down2(register_module("down2", SpatialConv3d(mesh, half_size(6, 6)))),
        down3(register_module("down3", SpatialConv3d(mesh, half_size(6, 8)))),
        low(register_module("low", SpatialBatchNorm(mesh, norm_of(8)))),
        up3(register_module("up3", SpatialConvTranspose3d(mesh, double_size(8, 6)))),
        up2(register_module("up2", SpatialConvTranspose3d(mesh, double_size(12, 6)))),
        up1(register_module("up1", SpatialConvTranspose3d(mesh, double_size(12, 4)))),
        last(register_module("last", SpatialConv3d(mesh, same_size(8, 1)))) {
    set_parameters(*this);
  }

  static SpatialPart active(const SpatialPart& part) { return part.with(torch::tanh(part.tensor)); }
  SpatialPart joined(const SpatialPart& a, const SpatialPart& b) {
    return concatenate(mesh, std::vector{a, b});
  }

  SpatialPart forward(const SpatialPart& input) {
    const auto level0 = active(norm(top(input)));
    const auto level1 = active(down1(level0));
    const auto level2 = active(down2(level1));
    const auto level3 = active(low(down3(level2)));
    lowest = level3.axes;
    const auto back2 = joined(active(up3->forward_like(level3, level2)), level2);
    const auto back1 = joined(active(up2->forward_like(back2, level1)), level1);
    return last(joined(active(up1->forward_like(back1, level0)), level0));
  }

  DeviceMesh mesh;
  SpatialConv3d top;
  SpatialBatchNorm norm;
  SpatialConv3d down1, down2, down3;
  SpatialBatchNorm low;
  SpatialConvTranspose3d up3, up2, up1;
  SpatialConv3d last;
  std::vector<PartAxis> lowest;
};

struct PlainNet : torch::nn::Module {
  PlainNet()
      : top(register_module("top", torch::nn::Conv3d(same_size(2, 4)))),
        norm(register_module("norm", torch::nn::BatchNorm3d(norm_of(4)))),
        down1(register_module("down1", torch::nn::Conv3d(half_size(4, 6)))),
        down2(register_module("down2", torch::nn::Conv3d(half_size(6, 6)))),
        down3(register_module("down3", torch::nn::Conv3d(half_size(6, 8)))),
        low(register_module("low", torch::nn::BatchNorm3d(norm_of(8)))),
        up3(register_module("up3", torch::nn::ConvTranspose3d(double_size(8, 6)))),
        up2(register_module("up2", torch::nn::ConvTranspose3d(double_size(12, 6)))),
        up1(register_module("up1", torch::nn::ConvTranspose3d(double_size(12, 4)))),
        last(register_module("last", torch::nn::Conv3d(same_size(8, 1)))) {
    set_parameters(*this);
  }

  torch::Tensor forward(const torch::Tensor& input) {
    const auto level0 = torch::tanh(norm(top(input)));
    const auto level1 = torch::tanh(down1(level0));
    const auto level2 = torch::tanh(down2(level1));
    const auto level3 = torch::tanh(low(down3(level2)));
    const auto back2 = torch::cat({torch::tanh(up3(level3)), level2}, 1);
    const auto back1 = torch::cat({torch::tanh(up2(back2)), level1}, 1);
    return last(torch::cat({torch::tanh(up1(back1)), level0}, 1));
  }

  torch::nn::Conv3d top;
  torch::nn::BatchNorm3d norm;
  torch::nn::Conv3d down1, down2, down3;
  torch::nn::BatchNorm3d low;
  torch::nn::ConvTranspose3d up3, up2, up1;
  torch::nn::Conv3d last;
};

// Of the samples: such that the lowest level is too small to be cut, but large enough for a batch
// norm that doesn't blow up rounding errors.
std::vector<std::int64_t> lengths_for(const DeviceMesh& mesh) {
  std::vector<std::int64_t> lengths;
  for (const auto axis : spatial_axes) lengths.push_back(mesh.length(axis) > 2 ? 16 : 8);
  return lengths;
}
// By step and place along the data axis.
torch::Tensor sample_of(const DeviceMesh& mesh, std::int64_t channels, int step, int data) {
  const auto lengths = lengths_for(mesh);
  return noise({4, channels, lengths[0], lengths[1], lengths[2]}, 100 * channels + 10 * data + step)
      .to(torch::kFloat);
}

torch::optim::SGD optimizer_of(torch::nn::Module& network) {
  return torch::optim::SGD(network.parameters(), torch::optim::SGDOptions(.02));
}

std::vector<torch::Tensor> values_of(const torch::nn::Module& network) {
  std::vector<torch::Tensor> values;
  for (const auto& parameter : network.parameters()) values.push_back(parameter.detach().clone());
  return values;
}

// All ranks' steps: the reducer averages over the whole world, as without spatial axes.
std::vector<torch::Tensor> train_shared(const Communicator& world, const DeviceMesh& mesh) {
  SharedNet network(mesh);
  auto optimizer = optimizer_of(network);
  GradientReducer reducer(world, network);
  const int data = mesh.coordinate(MeshAxis::data);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const auto output = network.forward(part_of(mesh, sample_of(mesh, 2, step, data)));
    const auto target = rows_like(mesh, output, sample_of(mesh, 1, step, data));
    (torch::mse_loss(output.tensor, target) * loss_factor(mesh, output)).backward();
    reducer.finish();
    optimizer.step();
  }
  bool is_lowest_whole = false;
  for (const auto& axis : network.lowest) is_lowest_whole = is_lowest_whole || axis.is_whole;
  EXPECT_EQ(is_lowest_whole, mesh.spatial().size() > 1);
  return values_of(network);
}

// The same, by passes over the arena whose state is cut among all ranks, with gradients that travel
// as the hook says (none: the optimizer's own, which reduces what a rank updates), and each step's
// samples taken in two passes.
std::vector<torch::Tensor> train_sharded(const Communicator& world, const DeviceMesh& mesh,
                                         std::shared_ptr<GradientHook> hook) {
  SharedNet network(mesh);
  const auto arena = std::make_shared<ParameterArena>(world, network);
  ShardedArenaOptimizer optimizer(world, arena, make_sgd({}));
  ReducerOptions options;
  options.hook = hook ? hook : optimizer.gradient_hook();
  GradientReducer reducer(world, arena, options);
  const int data = mesh.coordinate(MeshAxis::data);
  const auto pass = [&](int step) {
    const auto output = network.forward(part_of(mesh, sample_of(mesh, 2, step, data)));
    const auto target = rows_like(mesh, output, sample_of(mesh, 1, step, data));
    (torch::mse_loss(output.tensor, target) * loss_factor(mesh, output) / 2).backward();
  };
  for (int step = 0; step < steps; ++step) {
    network.zero_grad();
    {
      const auto quiet = reducer.no_sync();
      pass(step);
    }
    pass(step);
    for (std::size_t bucket = 0; bucket < arena->buckets(); ++bucket) {
      reducer.wait(bucket);
      optimizer.update(bucket, .02, step + 1);
    }
    reducer.finish();
    optimizer.finish();
  }
  return values_of(network);
}

// One rank's steps, on the samples of all places along the data axis; batch norm sees those of one
// place at a time.
std::vector<torch::Tensor> train_alone(const DeviceMesh& mesh) {
  PlainNet network;
  auto optimizer = optimizer_of(network);
  const int places = mesh.length(MeshAxis::data);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    for (int data = 0; data < places; ++data) {
      const auto output = network.forward(sample_of(mesh, 2, step, data));
      (torch::mse_loss(output, sample_of(mesh, 1, step, data)) / places).backward();
    }
    optimizer.step();
  }
  return values_of(network);
}

std::vector<MeshRequest> requests_for(std::int64_t ranks) {
  if (ranks == 1) return {{}};
  if (ranks == 4) return {{.spatial = {1, 2, 2}}, {.spatial = {1, 2}}};
  if (ranks == 6) return {{.spatial = {1, 3, 1}}};
  if (ranks == 8) return {{.spatial = {2, 2, 2}}};
  return {{.spatial = {ranks, 1, 1}}};
}

RANK_TEST(SpatialNetwork, TrainsAsOneRankDoesAndRepeatsItsBits) {
  for (const auto& request : requests_for(communicator.size())) {
    const DeviceMesh mesh(communicator, request);
    const auto shared = train_shared(communicator, mesh), again = train_shared(communicator, mesh);
    const auto alone = train_alone(mesh);
    ASSERT_EQ(shared.size(), alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_LE(relative_difference(shared[i], alone[i]), 1e-5)
          << "parameter " << i << " on " << mesh.shape().describe();
      EXPECT_TRUE(torch::equal(shared[i], again[i])) << "parameter " << i;
    }
  }
}

RANK_TEST(SpatialNetwork, GoesWithAccumulationShardedOptimizersAndCompression) {
  for (const auto& request : requests_for(communicator.size())) {
    const DeviceMesh mesh(communicator, request);
    const auto alone = train_alone(mesh);
    const auto sharded = train_sharded(communicator, mesh, nullptr);
    const auto compressed = train_sharded(communicator, mesh, float16_compression());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_LE(relative_difference(sharded[i], alone[i]), 1e-5) << "parameter " << i;
      EXPECT_LE(relative_difference(compressed[i], alone[i]), 2e-3) << "parameter " << i;
    }
  }
}

}  // namespace

}  // namespace kolo::testing
