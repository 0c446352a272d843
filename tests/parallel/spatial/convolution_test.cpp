#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>

#include "kolo/base/error.h"
#include "kolo/parallel/spatial_layers.h"
#include "parallel/spatial/layer_check.h"
#include "support/errors.h"
#include "support/rank_test.h"

namespace kolo::testing {

namespace {

using ::testing::HasSubstr;

struct Window {
  std::int64_t kernel, stride, padding, dilation = 1;
};

constexpr Window windows[] = {{4, 2, 1}, {3, 1, 1},    {3, 2, 1}, {7, 2, 3},
                              {1, 2, 0}, {3, 1, 2, 2}, {2, 2, 0}, {5, 1, 0}};

std::string describe(const Window& window) {
  return fmt::format("{}/{}/{}/{}", window.kernel, window.stride, window.padding, window.dilation);
}

// A layer, its reference and the options of both.
template <std::size_t D>
struct Convolutions;
template <>
struct Convolutions<1> {
  using Plain = torch::nn::Conv1d;
  using Transposed = torch::nn::ConvTranspose1d;
  using SpatialPlain = SpatialConv1d;
  using SpatialTransposed = SpatialConvTranspose1d;
};
template <>
struct Convolutions<2> {
  using Plain = torch::nn::Conv2d;
  using Transposed = torch::nn::ConvTranspose2d;
  using SpatialPlain = SpatialConv2d;
  using SpatialTransposed = SpatialConvTranspose2d;
};
template <>
struct Convolutions<3> {
  using Plain = torch::nn::Conv3d;
  using Transposed = torch::nn::ConvTranspose3d;
  using SpatialPlain = SpatialConv3d;
  using SpatialTransposed = SpatialConvTranspose3d;
};

template <typename Spatial, typename Reference, typename Options>
bool compare(const DeviceMesh& mesh, const Options& options,
             const std::vector<std::int64_t>& lengths, torch::ScalarType type,
             const std::string& what) {
  Spatial layer(mesh, options);
  Reference reference(options);
  std::vector<std::int64_t> shape = {2, options.in_channels()};
  shape.insert(shape.end(), lengths.begin(), lengths.end());
  return expect_alike(mesh, layer, reference, shape, type, what);
}

template <std::size_t D>
bool compare_plain(const DeviceMesh& mesh, CounterRandom& random, const Window& window,
                   torch::ScalarType type) {
  using All = Convolutions<D>;
  const auto least = window.dilation * (window.kernel - 1) + 1 - 2 * window.padding;
  const auto options = torch::nn::ConvOptions<D>(2, 4, window.kernel)
                           .stride(window.stride)
                           .padding(window.padding)
                           .dilation(window.dilation)
                           .groups(1 + random.below(2));
  return compare<typename All::SpatialPlain, typename All::Plain>(
      mesh, options, random_lengths(random, mesh, D, least), type,
      "convolution " + describe(window));
}

template <std::size_t D>
bool compare_transposed(const DeviceMesh& mesh, CounterRandom& random, const Window& window,
                        torch::ScalarType type) {
  using All = Convolutions<D>;
  // Several rows more than the least that leaves one.
  const auto least =
      (2 * window.padding - window.dilation * (window.kernel - 1)) / window.stride + 2;
  const auto extra =
      random.below(static_cast<std::uint32_t>(std::max(window.stride, window.dilation)));
  const auto options = torch::nn::ConvTransposeOptions<D>(2, 4, window.kernel)
                           .stride(window.stride)
                           .padding(window.padding)
                           .dilation(window.dilation)
                           .output_padding(extra)
                           .groups(1 + random.below(2))
                           .bias(random.below(4) != 0);
  return compare<typename All::SpatialTransposed, typename All::Transposed>(
      mesh, options, random_lengths(random, mesh, D, least), type,
      fmt::format("transposed convolution {}, output padding {}", describe(window), extra));
}

// All windows, in one type each; the numbers of axes take turns at who has which.
template <typename Compare>
void compare_all(const Communicator& communicator, const Compare& compare) {
  int cut = 0, number = 0;
  on_meshes(communicator, [&](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random) {
    for (const auto& window : windows) {
      const auto type = ++number % 2 == 0 ? torch::kDouble : torch::kFloat;
      cut += compare(mesh, axes, random, window, type) ? 1 : 0;
    }
  });
  EXPECT_GT(cut, 0);
}

RANK_TEST(SpatialConvolution, EqualsLibTorchs) {
  compare_all(communicator, [](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random,
                               const Window& window, torch::ScalarType type) {
    if (axes == 1) return compare_plain<1>(mesh, random, window, type);
    if (axes == 2) return compare_plain<2>(mesh, random, window, type);
    return compare_plain<3>(mesh, random, window, type);
  });
}

RANK_TEST(SpatialConvolution, TransposedEqualsLibTorchs) {
  compare_all(communicator, [](const DeviceMesh& mesh, std::size_t axes, CounterRandom& random,
                               const Window& window, torch::ScalarType type) {
    if (axes == 1) return compare_transposed<1>(mesh, random, window, type);
    if (axes == 2) return compare_transposed<2>(mesh, random, window, type);
    return compare_transposed<3>(mesh, random, window, type);
  });
}

RANK_TEST(SpatialConvolution, CircularAndSamePaddingEqualLibTorchs) {
  const DeviceMesh mesh(communicator, {.data = 1, .spatial = {1, communicator.size()}});
  const auto options = torch::nn::Conv2dOptions(2, 3, 3).padding(torch::kSame);
  for (const std::int64_t length : {communicator.size(), 3 * communicator.size() + 1}) {
    const std::vector<std::int64_t> lengths = {5, length + 2};
    compare<SpatialConv2d, torch::nn::Conv2d>(mesh, options, lengths, torch::kDouble, "same");
    compare<SpatialConv2d, torch::nn::Conv2d>(
        mesh, torch::nn::Conv2dOptions(2, 3, 3).padding(1).padding_mode(torch::kCircular), lengths,
        torch::kDouble, "circular");
  }
}

RANK_TEST(SpatialConvolution, WhatCantBeCutIsRefused) {
  const DeviceMesh mesh(communicator, {.data = 1, .spatial = {communicator.size(), 1}});
  const auto reflecting =
      torch::nn::Conv2dOptions(1, 1, 3).padding(1).padding_mode(torch::kReflect);
  EXPECT_THAT(message_of<Error>([&] { SpatialConv2d layer(mesh, reflecting); }),
              HasSubstr("zeros or circular"));
  const auto even = torch::nn::Conv2dOptions(1, 1, 4).padding(torch::kSame);
  EXPECT_THAT(message_of<Error>([&] { SpatialConv2d layer(mesh, even); }),
              HasSubstr("even number"));
  SpatialConv2d layer(mesh, torch::nn::Conv2dOptions(1, 1, 9));
  const auto part = part_of(mesh, torch::zeros({1, 1, 8, 8}));
  EXPECT_THAT(message_of<InputError>([&] { (void)layer(part); }), HasSubstr("leaves no row of 8"));
  SpatialConv1d of_one_axis(mesh, torch::nn::Conv1dOptions(1, 1, 3));
  EXPECT_THAT(message_of<Error>([&] { (void)of_one_axis(part); }), HasSubstr("with 2 axes"));
}

}  // namespace

}  // namespace kolo::testing
