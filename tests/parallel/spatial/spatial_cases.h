#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <torch/types.h>

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

}  // namespace kolo::testing
