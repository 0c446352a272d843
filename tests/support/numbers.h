#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <torch/types.h>

// Tensors for tests of several ranks, made without LibTorch's generator, which ranks that are
// threads share: the same numbers on all ranks.
namespace kolo::testing {

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

// The largest difference as a share of the largest value: sums in another order leave small values
// no more digits than large ones.
inline double relative_difference(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  if (b.numel() == 0) return 0;
  const auto wide = b.to(torch::kDouble);
  const auto scale = wide.abs().max().item<double>();
  const auto difference = (a.to(torch::kDouble) - wide).abs().max().item<double>();
  return scale > 0 ? difference / scale : difference;
}

}  // namespace kolo::testing
