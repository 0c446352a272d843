#pragma once

#include <cstdint>
#include <span>

// Passes over flat buffers, at the speed of memory. Their results don't depend on the processor.
namespace kolo::parallel {

// In double precision.
[[nodiscard]] double sum_of_squares(std::span<const float> values);
[[nodiscard]] double sum_of_squares(std::span<const double> values);

void scale(std::span<float> values, double factor);
void scale(std::span<double> values, double factor);

// Whether some value has all the bits of `mask`: for a mask of the exponent's bits, whether a
// floating-point number is infinite or not a number.
[[nodiscard]] bool has_all_bits(std::span<const std::uint64_t> values, std::uint64_t mask);
[[nodiscard]] bool has_all_bits(std::span<const std::uint32_t> values, std::uint32_t mask);
[[nodiscard]] bool has_all_bits(std::span<const std::uint16_t> values, std::uint16_t mask);

}  // namespace kolo::parallel
