#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "kolo/base/random.h"
#include "kolo/parallel/device_mesh.h"

namespace kolo::testing {

// All ways to share a sample among the ranks along up to three axes; without trailing axes of 1.
inline std::vector<std::vector<std::int64_t>> spatial_lengths(std::int64_t ranks) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t first = 1; first <= ranks; ++first) {
    if (ranks % first != 0) continue;
    const auto left = ranks / first;
    for (std::int64_t second = 1; second <= left; ++second) {
      if (left % second != 0) continue;
      std::vector<std::int64_t> lengths = {first, second, left / second};
      while (!lengths.empty() && lengths.back() == 1) lengths.pop_back();
      all.push_back(lengths);
    }
  }
  return all;
}

// The same numbers on all ranks, without LibTorch's generator, which ranks that are threads share.
inline torch::Tensor waves(const std::vector<std::int64_t>& shape, double frequency,
                           torch::ScalarType type = torch::kDouble) {
  const auto count = c10::multiply_integers(shape);
  return torch::sin(torch::arange(count, torch::kDouble) * frequency).view(shape).to(type);
}

// Numbers from -1 to 1 without a pattern, for networks: a wave has one frequency, which filters may
// leave nothing of, and a batch norm after them blows up what they leave.
inline torch::Tensor noise(const std::vector<std::int64_t>& shape, std::int64_t seed) {
  const auto count = c10::multiply_integers(shape);
  const auto index = torch::arange(count, torch::kDouble) + static_cast<double>(1000 * seed);
  return torch::frac(torch::sin(index * 12.9898) * 43758.5453).view(shape);
}

// Of all values together: sums in another order leave small values no more digits than large ones.
inline double relative_difference(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  if (b.numel() == 0) return 0;
  const auto wide = b.to(torch::kDouble);
  const auto scale = wide.abs().max().item<double>();
  const auto difference = (a.to(torch::kDouble) - wide).abs().max().item<double>();
  return scale > 0 ? difference / scale : difference;
}

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
