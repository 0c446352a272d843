#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/pooling.h>

#include "kolo/base/error.h"
#include "kolo/parallel/spatial_layers.h"
#include "parallel/spatial/layer_check.h"
#include "support/errors.h"
#include "support/rank_test.h"

// Pooling and batch norm.
namespace kolo::testing {

namespace {

using ::testing::HasSubstr;

std::vector<std::int64_t> pooled_shape(CounterRandom& random, const DeviceMesh& mesh,
                                       std::size_t axes, std::int64_t least) {
  std::vector<std::int64_t> shape = {2, 3};
  for (const auto length : random_lengths(random, mesh, axes, least)) shape.push_back(length);
  return shape;
}

// Both layers with these options on a sample of D axes.
template <std::size_t D, typename Layer, typename Reference, typename Options>
void compare_pooling(const DeviceMesh& mesh, CounterRandom& random, const Options& options,
                     torch::ScalarType type, const std::string& what) {
  Layer layer(mesh, options);
  Reference reference(options);
  expect_alike(mesh, layer, reference, pooled_shape(random, mesh, D, 5), type, what);
}

template <std::size_t D, typename Layer, typename Reference>
void compare_maxima(const DeviceMesh& mesh, CounterRandom& random) {
  using Options = torch::nn::MaxPoolOptions<D>;
  int number = 0;
  for (const auto& options :
       {Options(3).stride(2).padding(1), Options(2), Options(3).stride(1).padding(1).dilation(2),
        Options(4).stride(2).padding(1)}) {
    compare_pooling<D, Layer, Reference>(mesh, random, options,
                                         ++number % 2 == 0 ? torch::kDouble : torch::kFloat,
                                         fmt::format("max pooling {}", number));
  }
}

template <std::size_t D, typename Layer, typename Reference>
void compare_averages(const DeviceMesh& mesh, CounterRandom& random) {
  using Options = torch::nn::AvgPoolOptions<D>;
  int number = 0;
  for (const auto& options :
       {Options(3).stride(2).padding(1), Options(3).stride(2).padding(1).count_include_pad(false),
        Options(2), Options(4).stride(2).padding(1).count_include_pad(false)}) {
    compare_pooling<D, Layer, Reference>(mesh, random, options,
                                         ++number % 2 == 0 ? torch::kFloat : torch::kDouble,
                                         fmt::format("average pooling {}", number));
  }
}

RANK_TEST(SpatialPooling, MaximaEqualLibTorchs) {
  on_meshes(communicator, [](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random) {
    if (axes == 1) compare_maxima<1, SpatialMaxPool1d, torch::nn::MaxPool1d>(mesh, random);
    if (axes == 2) compare_maxima<2, SpatialMaxPool2d, torch::nn::MaxPool2d>(mesh, random);
    if (axes == 3) compare_maxima<3, SpatialMaxPool3d, torch::nn::MaxPool3d>(mesh, random);
  });
}

RANK_TEST(SpatialPooling, AveragesEqualLibTorchs) {
  on_meshes(communicator, [](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random) {
    if (axes == 1) compare_averages<1, SpatialAvgPool1d, torch::nn::AvgPool1d>(mesh, random);
    if (axes == 2) compare_averages<2, SpatialAvgPool2d, torch::nn::AvgPool2d>(mesh, random);
    if (axes == 3) compare_averages<3, SpatialAvgPool3d, torch::nn::AvgPool3d>(mesh, random);
  });
}

RANK_TEST(SpatialPooling, ADivisorOfOnesOwn) {
  const DeviceMesh mesh(communicator, {.data = 1, .spatial = {communicator.size()}});
  CounterRandom random(1, 1, 1);
  compare_pooling<2, SpatialAvgPool2d, torch::nn::AvgPool2d>(
      mesh, random, torch::nn::AvgPool2dOptions(3).padding(1).divisor_override(5), torch::kDouble,
      "divisor");
}

RANK_TEST(SpatialPooling, GlobalAveragesEqualLibTorchs) {
  on_meshes(communicator, [](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random) {
    SpatialGlobalAvgPool layer(mesh);
    const auto shape = pooled_shape(random, mesh, axes, 1);
    if (axes == 1) {
      torch::nn::AdaptiveAvgPool1d reference(1);
      expect_alike(mesh, layer, reference, shape, torch::kDouble, "global average pooling");
    } else if (axes == 2) {
      torch::nn::AdaptiveAvgPool2d reference(1);
      expect_alike(mesh, layer, reference, shape, torch::kFloat, "global average pooling");
    } else {
      torch::nn::AdaptiveAvgPool3d reference(1);
      expect_alike(mesh, layer, reference, shape, torch::kDouble, "global average pooling");
    }
  });
}

RANK_TEST(SpatialPooling, CeilModeIsRefused) {
  const DeviceMesh mesh(communicator, {.data = 1, .spatial = {communicator.size()}});
  const auto maxima = torch::nn::MaxPool2dOptions(3).ceil_mode(true);
  EXPECT_THAT(message_of<Error>([&] { SpatialMaxPool2d layer(mesh, maxima); }),
              HasSubstr("ceil_mode"));
  const auto averages = torch::nn::AvgPool2dOptions(3).ceil_mode(true);
  EXPECT_THAT(message_of<Error>([&] { SpatialAvgPool2d layer(mesh, averages); }),
              HasSubstr("ceil_mode"));
}

// A batch norm after a pooling that leaves so few rows that some meshes can't cut them.
struct PooledNorm : torch::nn::Module {
  explicit PooledNorm(const DeviceMesh& mesh)
      : pool(mesh, torch::nn::MaxPool2dOptions(5).stride(4)),
        norm(register_module("norm", SpatialBatchNorm(mesh, torch::nn::BatchNormOptions(3)))) {}
  SpatialPart forward(const SpatialPart& part) { return norm(pool(part)); }
  SpatialMaxPool2d pool;
  SpatialBatchNorm norm;
};

struct PooledNormReference : torch::nn::Module {
  PooledNormReference()
      : pool(torch::nn::MaxPool2dOptions(5).stride(4)),
        norm(register_module("norm", torch::nn::BatchNorm2d(3))) {}
  torch::Tensor forward(const torch::Tensor& input) { return norm(pool(input)); }
  torch::nn::MaxPool2d pool;
  torch::nn::BatchNorm2d norm;
};

RANK_TEST(SpatialBatchNorm, EqualsLibTorchs) {
  on_meshes(communicator, [](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random) {
    if (axes != 2) return;
    const auto layer = std::make_shared<PooledNorm>(mesh);
    const auto reference = std::make_shared<PooledNormReference>();
    auto lengths = random_lengths(random, mesh, 2, 6);
    expect_alike(mesh, layer, reference, {2, 3, lengths[0], lengths[1]}, torch::kDouble,
                 "batch norm");
    EXPECT_LE(relative_difference(layer->norm->running_mean, reference->norm->running_mean), 1e-12);
    EXPECT_LE(relative_difference(layer->norm->running_var, reference->norm->running_var), 1e-12);
  });
}

RANK_TEST(SpatialBatchNorm, OverAllSamplesToo) {
  if (communicator.size() % 2 != 0) return;
  const DeviceMesh mesh(communicator, {.data = 2, .spatial = {communicator.size() / 2}});
  SpatialBatchNorm layer(mesh, torch::nn::BatchNormOptions(3), NormGroup::replicas);
  torch::nn::BatchNorm2d reference(3);
  layer->to(torch::kDouble);
  reference->to(torch::kDouble);
  const std::vector<torch::Tensor> samples = {waves({2, 3, 9, 2}, .3), waves({2, 3, 9, 2}, .5) + 2};
  const auto expected = reference(torch::cat(samples)).detach();
  const auto place = mesh.coordinate(MeshAxis::data);
  const auto output = layer(part_of(mesh, samples[static_cast<std::size_t>(place)]));
  EXPECT_LE(relative_difference(output.tensor.detach(),
                                rows_like(mesh, output, expected.narrow(0, 2 * place, 2))),
            1e-12);
  EXPECT_LE(relative_difference(layer->running_var, reference->running_var), 1e-12);
}

}  // namespace

}  // namespace kolo::testing
