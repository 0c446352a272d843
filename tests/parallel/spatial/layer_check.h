#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/base/random.h"
#include "kolo/parallel/spatial_part.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/spatial/spatial_cases.h"

// A layer on the parts of a sample against LibTorch's on the whole sample, in float64.
namespace kolo::testing {

// Odd and even lengths, some so small that a layer can't be cut.
inline std::vector<std::int64_t> random_lengths(CounterRandom& random, const DeviceMesh& mesh,
                                                std::size_t axes, std::int64_t least = 1) {
  std::vector<std::int64_t> lengths;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const auto ranks = mesh.length(spatial_axes[axis]);
    const std::int64_t length = ranks * (1 + random.below(6)) + random.below(3);
    lengths.push_back(std::max(length, least));
  }
  return lengths;
}

// How many ranks have what this rank has.
inline double copies_of_rows(const SpatialPart& part) {
  double copies = 1;
  for (const auto& axis : part.axes) copies *= axis.is_whole ? axis.cut.ranks() : 1;
  return copies;
}

// The same numbers for the same shapes, as large as LibTorch's own are at first.
inline void set_parameters(torch::nn::Module& module) {
  const torch::NoGradGuard no_gradient;
  int index = 0;
  for (auto& parameter : module.parameters()) {
    const auto inputs = static_cast<double>(parameter.numel() / parameter.size(0));
    parameter.copy_(waves(parameter.sizes().vec(), .71 + ++index) / std::sqrt(inputs) + .02);
  }
}

// Forward and backward of both; `layer` takes a part, `reference`, in float64, a tensor. Returns
// whether the output was cut along all axes.
template <typename Layer, typename Reference>
bool expect_alike(const DeviceMesh& mesh, Layer& layer, Reference& reference,
                  const std::vector<std::int64_t>& shape, torch::ScalarType type,
                  const std::string& what) {
  const double tolerance = type == torch::kDouble ? 1e-12 : 1e-5;
  const auto name =
      fmt::format("{} of [{}] on {}", what, fmt::join(shape, ", "), mesh.shape().describe());
  layer->to(type);
  reference->to(torch::kDouble);
  set_parameters(*layer);
  set_parameters(*reference);
  const auto whole = waves(shape, .37).requires_grad_();
  const torch::Tensor expected = reference->forward(whole);
  const auto slope = waves(expected.sizes().vec(), 1.7);
  (expected * slope + expected.square()).sum().backward();

  auto part = part_of(mesh, whole.detach().to(type));
  part.tensor.requires_grad_();
  const SpatialPart output = layer->forward(part);
  const auto& rows = output.tensor;
  EXPECT_LE(relative_difference(rows, rows_like(mesh, output, expected.detach())), tolerance)
      << name;
  EXPECT_LE(relative_difference(whole_of(mesh, output).detach(), expected.detach()), tolerance)
      << name;
  const auto own_slope = rows_like(mesh, output, slope).to(type);
  ((rows * own_slope + rows.square()).sum() / copies_of_rows(output)).backward();
  EXPECT_LE(relative_difference(part.tensor.grad(), rows_like(mesh, part, whole.grad())), tolerance)
      << name;
  for (const auto& item : layer->named_parameters()) {
    const auto sum = all_reduced(mesh.spatial(), item.value().grad());
    EXPECT_LE(relative_difference(sum, reference->named_parameters()[item.key()].grad()), tolerance)
        << name << ", " << item.key();
  }
  return copies_of_rows(output) == 1;
}

// Calls check(mesh, number of axes, random numbers) for the ways to share samples of one to three
// axes.
template <typename Check>
void on_meshes(const Communicator& communicator, const Check& check) {
  std::uint64_t number = 0;
  for (const auto& lengths : spatial_lengths(communicator.size())) {
    const DeviceMesh mesh(communicator, {.data = 1, .spatial = lengths});
    for (std::size_t axes = std::max<std::size_t>(1, lengths.size()); axes <= 3; ++axes) {
      // Of the many meshes of many ranks those that cut all axes, to save time.
      if (communicator.size() > 4 && axes > lengths.size()) continue;
      CounterRandom random(11, 2, ++number);
      check(mesh, axes, random);
    }
  }
}

}  // namespace kolo::testing
