#pragma once

#include <cstdint>

#include "base/half.h"

// Which values of vectors of channels are not 0, a bit for each. Only for processors with vectors
// of 8 floats or more.
namespace kolo::nonzero_bits {

using Word = std::uint64_t;
inline constexpr std::int64_t bits_of_word = 64;

// Of one vector; bits beyond its channels are 0.
[[nodiscard]] constexpr std::int64_t words_of(std::int64_t channels) {
  return (channels + bits_of_word - 1) / bits_of_word;
}

// Of `count` vectors, one after another. Channels are a multiple of 16. What is no number is not 0.
void find(const float* vectors, std::int64_t count, std::int64_t channels, Word* bits);
void find(const BFloat16* vectors, std::int64_t count, std::int64_t channels, Word* bits);

}  // namespace kolo::nonzero_bits
