#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "base/half.h"
#include "kernels/loops.h"
#include "kolo/base/checked.h"

// Loops of loops.h over tensors in channels-last memory.
namespace kolo {

// Float32 and bfloat16 on CPUs, the values that loops take.
[[nodiscard]] inline bool has_loop_values(const torch::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return tensor.device().is_cpu() && (type == torch::kFloat || type == torch::kBFloat16) &&
         tensor.layout() == torch::kStrided;
}

// Calls work.operator()<T>() for the type of the tensor's values.
template <typename Work>
void with_values(const torch::Tensor& tensor, const Work& work) {
  if (tensor.scalar_type() == torch::kBFloat16)
    work.template operator()<BFloat16>();
  else
    work.template operator()<float>();
}

template <typename T>
[[nodiscard]] T* values_of(const torch::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

[[nodiscard]] inline ChannelRows rows_of(const torch::Tensor& tensor) {
  return {.count = tensor.numel() / tensor.size(1), .channels = tensor.size(1)};
}

// Two sums per channel, one after the other: of parts of the rows that don't depend on the number
// of threads, in the order of the rows, so that the result doesn't either.
template <typename Work>
[[nodiscard]] std::vector<double> sums_of(const ChannelRows& rows, const Work& work) {
  constexpr std::int64_t values_of_block = 1 << 17;
  const auto rows_of_block = values_of_block / rows.channels + 1;
  const auto blocks = divide_up(rows.count, rows_of_block);
  const auto size = static_cast<std::size_t>(2 * rows.channels);
  std::vector<double> sums(static_cast<std::size_t>(blocks) * size);
  at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const auto first = block * rows_of_block;
      double* const into = sums.data() + static_cast<std::size_t>(block) * size;
      work(first, ChannelRows{std::min(rows_of_block, rows.count - first), rows.channels}, into,
           into + rows.channels);
    }
  });
  for (std::size_t i = size; i < sums.size(); ++i) sums[i % size] += sums[i];
  sums.resize(size);
  return sums;
}

// Sums per channel of the distances from `shift`, and then of their squares.
[[nodiscard]] inline std::vector<double> sums_of_distances(const torch::Tensor& tensor,
                                                           const std::vector<float>& shift) {
  const auto rows = rows_of(tensor);
  std::vector<double> sums;
  with_values(tensor, [&]<typename T>() {
    sums = sums_of(rows,
                   [&](std::int64_t first, const ChannelRows& block, double* sum, double* square) {
                     sum_distances(block, values_of<const T>(tensor) + first * rows.channels,
                                   shift.data(), sum, square);
                   });
  });
  return sums;
}

}  // namespace kolo
