#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/nonzero_bits.h"

// The loops of nonzero_bits.h, for vectors that were included before.
namespace kolo::KOLO_VECTORS {

template <typename T>
KOLO_VECTOR void find_nonzero(const T* vectors, std::int64_t count, std::int64_t channels,
                              nonzero_bits::Word* bits) {
  for (std::int64_t i = 0; i < count; ++i, vectors += channels) {
    for (std::int64_t first = 0; first < channels; first += nonzero_bits::bits_of_word, ++bits) {
      const auto end = std::min(first + nonzero_bits::bits_of_word, channels);
      nonzero_bits::Word word = 0;
      for (auto channel = first; channel < end; channel += lanes)
        word |= nonzero_bits::Word{nonzero(loaded(vectors + channel))} << (channel - first);
      *bits = word;
    }
  }
}

}  // namespace kolo::KOLO_VECTORS
