#include "parallel/optimizers/flat_kernels.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "kolo/base/vectorize.h"

namespace kolo::parallel {

namespace {

// Accumulators side by side: enough for the widest vectors, and one order of additions for all.
constexpr std::size_t strands = 32;

template <typename T>
inline double sum_of_squares_loop(const T* __restrict values, std::size_t size) {
  std::array<double, strands> sums{};
  std::size_t i = 0;
  for (; i + strands <= size; i += strands) {
    for (std::size_t strand = 0; strand < strands; ++strand) {
      const auto value = static_cast<double>(values[i + strand]);
      sums[strand] += value * value;
    }
  }
  for (std::size_t strand = 0; i < size; ++i, ++strand)
    sums[strand] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  for (std::size_t half = strands / 2; half > 0; half /= 2) {
    for (std::size_t strand = 0; strand < half; ++strand) sums[strand] += sums[strand + half];
  }
  return sums[0];
}

template <typename T>
inline void scale_loop(T* __restrict values, std::size_t size, T factor) {
  for (std::size_t i = 0; i < size; ++i) values[i] *= factor;
}

// Looks at the answer once a block only: a loop that can be left early is not vectorized.
template <typename T>
inline bool has_all_bits_loop(const T* __restrict values, std::size_t size, T mask) {
  constexpr std::size_t block = 4096;
  for (std::size_t begin = 0; begin < size; begin += block) {
    const std::size_t end = std::min(size, begin + block);
    T found = 0;
    for (std::size_t i = begin; i < end; ++i)
      found |= static_cast<T>((values[i] & mask) == mask ? 1 : 0);
    if (found != 0) return true;
  }
  return false;
}

}  // namespace

KOLO_VECTORIZE
double sum_of_squares(std::span<const float> values) {
  return sum_of_squares_loop(values.data(), values.size());
}

KOLO_VECTORIZE
double sum_of_squares(std::span<const double> values) {
  return sum_of_squares_loop(values.data(), values.size());
}

KOLO_VECTORIZE
void scale(std::span<float> values, double factor) {
  scale_loop(values.data(), values.size(), static_cast<float>(factor));
}

KOLO_VECTORIZE
void scale(std::span<double> values, double factor) {
  scale_loop(values.data(), values.size(), factor);
}

KOLO_VECTORIZE
bool has_all_bits(std::span<const std::uint64_t> values, std::uint64_t mask) {
  return has_all_bits_loop(values.data(), values.size(), mask);
}

KOLO_VECTORIZE
bool has_all_bits(std::span<const std::uint32_t> values, std::uint32_t mask) {
  return has_all_bits_loop(values.data(), values.size(), mask);
}

KOLO_VECTORIZE
bool has_all_bits(std::span<const std::uint16_t> values, std::uint16_t mask) {
  return has_all_bits_loop(values.data(), values.size(), mask);
}

}  // namespace kolo::parallel
