#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/functional/instancenorm.h>  // before the modules, which lack it
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/pooling.h>

#include "kolo/base/error.h"
#include "kolo/parallel/spatial_layers.h"
#include "parallel/spatial/layer_check.h"
#include "support/errors.h"
#include "support/rank_test.h"

// Instance and group norm.
namespace kolo::testing {

namespace {

using ::testing::HasSubstr;

// A norm after a pooling that leaves so few rows that some meshes can't cut them. It takes every
// fourth: maxima would lie so near to each other that a norm blows up how they are rounded.
template <typename Pool, typename Norm>
struct NormAfterPooling : torch::nn::Module {
  NormAfterPooling(Pool pool_, Norm norm_)
      : pool(std::move(pool_)), norm(register_module("norm", std::move(norm_))) {}
  template <typename Input>
  Input forward(const Input& input) {
    return norm->forward(pool->forward(input));
  }
  Pool pool;
  Norm norm;
};

template <typename Pool, typename Norm>
auto after_pooling(Pool pool, Norm norm) {
  return std::make_shared<NormAfterPooling<Pool, Norm>>(std::move(pool), std::move(norm));
}

// Whether the rows after the pooling were cut along all axes.
template <std::size_t D, typename Pool, typename PlainPool, typename Norm, typename PlainNorm,
          typename Options>
bool compare_norms(const DeviceMesh& mesh, CounterRandom& random, const Options& options,
                   torch::ScalarType type, const std::string& what) {
  std::vector<std::int64_t> shape = {3, 6};
  for (const auto length : random_lengths(random, mesh, D, 9)) shape.push_back(length);
  Norm norm(mesh, options);
  PlainNorm plain_norm(options);
  expect_alike(mesh, norm, plain_norm, shape, type, what);
  const auto pool = torch::nn::MaxPoolOptions<D>(1).stride(4);
  const auto layer = after_pooling(Pool(mesh, pool), Norm(mesh, options));
  const auto reference = after_pooling(PlainPool(pool), PlainNorm(options));
  return expect_alike(mesh, layer, reference, shape, type, what + " after a pooling");
}

constexpr int norms_compared = 3;

// How many of them were cut after the pooling.
template <std::size_t D, typename Pool, typename PlainPool, typename PlainNorm>
int compare_instance_norms(const DeviceMesh& mesh, CounterRandom& random) {
  int cut = 0;
  const auto compare = [&](const torch::nn::InstanceNormOptions& options, torch::ScalarType type,
                           const std::string& what) {
    cut += compare_norms<D, Pool, PlainPool, SpatialInstanceNorm, PlainNorm>(mesh, random, options,
                                                                             type, what);
  };
  compare(torch::nn::InstanceNormOptions(6), torch::kDouble, "instance norm");
  compare(torch::nn::InstanceNormOptions(6).affine(true).eps(1e-3), torch::kDouble,
          "affine instance norm");
  compare(torch::nn::InstanceNormOptions(6).affine(true), torch::kFloat,
          "affine instance norm in float32");
  return cut;
}

template <std::size_t D, typename Pool, typename PlainPool>
int compare_group_norms(const DeviceMesh& mesh, CounterRandom& random) {
  int cut = 0;
  const auto compare = [&](const torch::nn::GroupNormOptions& options, torch::ScalarType type,
                           const std::string& what) {
    cut += compare_norms<D, Pool, PlainPool, SpatialGroupNorm, torch::nn::GroupNorm>(
        mesh, random, options, type, what);
  };
  compare(torch::nn::GroupNormOptions(3, 6), torch::kDouble, "norm of 3 groups");
  compare(torch::nn::GroupNormOptions(1, 6).affine(false), torch::kDouble, "norm of 1 group");
  compare(torch::nn::GroupNormOptions(2, 6).eps(1e-3), torch::kFloat, "norm in float32");
  return cut;
}

// Of many ranks some meshes leave the rows cut and others don't.
void expect_both(const Communicator& communicator, int cut, int compared) {
  EXPECT_GT(cut, 0);
  if (communicator.size() >= 4) {
    EXPECT_LT(cut, compared);
  }
}

RANK_TEST(SpatialInstanceNorm, EqualsLibTorchs) {
  using torch::nn::InstanceNorm1d, torch::nn::InstanceNorm2d, torch::nn::InstanceNorm3d;
  using torch::nn::MaxPool1d, torch::nn::MaxPool2d, torch::nn::MaxPool3d;
  int cut = 0, compared = 0;
  on_meshes(communicator, [&](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random) {
    compared += norms_compared;
    if (axes == 1)
      cut += compare_instance_norms<1, SpatialMaxPool1d, MaxPool1d, InstanceNorm1d>(mesh, random);
    if (axes == 2)
      cut += compare_instance_norms<2, SpatialMaxPool2d, MaxPool2d, InstanceNorm2d>(mesh, random);
    if (axes == 3)
      cut += compare_instance_norms<3, SpatialMaxPool3d, MaxPool3d, InstanceNorm3d>(mesh, random);
  });
  expect_both(communicator, cut, compared);
}

RANK_TEST(SpatialGroupNorm, EqualsLibTorchs) {
  using torch::nn::MaxPool1d, torch::nn::MaxPool2d, torch::nn::MaxPool3d;
  int cut = 0, compared = 0;
  on_meshes(communicator, [&](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random) {
    compared += norms_compared;
    if (axes == 1) cut += compare_group_norms<1, SpatialMaxPool1d, MaxPool1d>(mesh, random);
    if (axes == 2) cut += compare_group_norms<2, SpatialMaxPool2d, MaxPool2d>(mesh, random);
    if (axes == 3) cut += compare_group_norms<3, SpatialMaxPool3d, MaxPool3d>(mesh, random);
  });
  expect_both(communicator, cut, compared);
}

// Two steps, then evaluation with what they have left behind.
RANK_TEST(SpatialInstanceNorm, RunningStatisticsAreLibTorchs) {
  on_meshes(communicator, [](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random) {
    if (axes != 2) return;
    const auto options = torch::nn::InstanceNorm2dOptions(3).affine(true).track_running_stats(true);
    const auto pool = torch::nn::MaxPool2dOptions(1).stride(4);
    const auto layer =
        after_pooling(SpatialMaxPool2d(mesh, pool), SpatialInstanceNorm(mesh, options));
    const auto reference =
        after_pooling(torch::nn::MaxPool2d(pool), torch::nn::InstanceNorm2d(options));
    const auto lengths = random_lengths(random, mesh, 2, 10);
    for (const bool is_training : {true, true, false}) {
      layer->train(is_training);
      reference->train(is_training);
      expect_alike(mesh, layer, reference, {2, 3, lengths[0], lengths[1]}, torch::kDouble,
                   is_training ? "tracking instance norm" : "instance norm in evaluation");
      layer->zero_grad();
      reference->zero_grad();
      EXPECT_LE(relative_difference(layer->norm->running_mean, reference->norm->running_mean),
                1e-12);
      EXPECT_LE(relative_difference(layer->norm->running_var, reference->norm->running_var), 1e-12);
    }
  });
}

RANK_TEST(SpatialGroupNorm, KeepsValuesFarFromZero) {
  const DeviceMesh mesh(communicator, {.data = 1, .spatial = {communicator.size()}});
  const auto samples = waves({2, 4, 3 * communicator.size() + 1, 2}, .3) + 1e6;
  SpatialGroupNorm layer(mesh, torch::nn::GroupNormOptions(2, 4));
  torch::nn::GroupNorm reference(torch::nn::GroupNormOptions(2, 4));
  layer->to(torch::kDouble);
  reference->to(torch::kDouble);
  const auto output = layer(part_of(mesh, samples));
  const auto expected = rows_like(mesh, output, reference(samples).detach());
  EXPECT_LE(relative_difference(output.tensor.detach(), expected), 1e-8);
}

RANK_TEST(SpatialNorms, WhatTheyRefuse) {
  const DeviceMesh mesh(communicator, {.data = 1, .spatial = {communicator.size()}});
  EXPECT_THAT(message_of<InputError>(
                  [&] { SpatialGroupNorm layer(mesh, torch::nn::GroupNormOptions(4, 6)); }),
              HasSubstr("6 channels in 4 groups"));
  const auto part = part_of(mesh, waves({1, 3, 2 * communicator.size()}, .3));
  EXPECT_THAT(message_of<Error>([&] {
                SpatialInstanceNorm layer(mesh, torch::nn::InstanceNormOptions(4));
                layer(part);
              }),
              HasSubstr("expected a floating dtype and [N, 4, rows ...]"));
  if (communicator.size() > 1) return;
  EXPECT_THAT(message_of<Error>([&] {
                SpatialInstanceNorm layer(mesh, torch::nn::InstanceNormOptions(3));
                layer(part_of(mesh, waves({2, 3, 1}, .3)));
              }),
              HasSubstr("one value per channel"));
}

}  // namespace

}  // namespace kolo::testing
