#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/Parallel.h>

#include "base/half.h"
#include "kolo/base/checked.h"

// Types common to the kernels' own products of small matrices (float32_products below,
// bfloat16_products).
namespace kolo {

// Use of a product: it replaces the values there, or is added to them. A streamed one replaces them
// past the caches, which then needn't read them first: for results larger than the caches, whose
// rows begin at multiples of `stream_alignment` bytes.
enum class ProductResult { replaces, is_added, is_streamed };

inline constexpr std::int64_t stream_alignment = 64;

// Channels whose part of a matrix stays in a cache while all rows meet it.
inline constexpr std::int64_t channels_of_block = 64;

// Calls work(first, count) for channels side by side on LibTorch's threads, each of which gets as
// many. One such region a pass: a region for each product would cost more than the products.
template <typename Work>
void for_channels(std::int64_t channels, const Work& work) {
  constexpr std::int64_t vector = 16;
  const auto of_thread = divide_up(channels, at::get_num_threads());
  const auto blocks_of_thread = divide_up(of_thread, channels_of_block);
  const auto block = divide_up(of_thread, blocks_of_thread * vector) * vector;
  at::parallel_for(0, divide_up(channels, block), 1, [&](std::int64_t begin, std::int64_t end) {
    work(begin * block, std::min(end * block, channels) - begin * block);
  });
}

}  // namespace kolo

// Products of float32 matrices that lie in the first caches, with no work besides: for the many
// small products of a kernel (VectorLoops::multiply). Larger ones are for multiply() of
// convolution_kernel.h.
namespace kolo::float32_products {

// Columns are a multiple of so many.
inline constexpr std::int64_t lanes = 16;

// The left-hand matrix; either of its dimensions may be the one without gaps.
struct Left {
  const float* data = nullptr;
  std::int64_t row_stride = 0, inner_stride = 1;
};

}  // namespace kolo::float32_products

// Products of bfloat16 matrices, added up in float32, by the instruction for two of them at once.
// Only for processors that have it.
namespace kolo::bfloat16_products {

// Tells whether this processor has AVX512-BF16; without it nothing else here may be called.
[[nodiscard]] bool are_supported();

// Two values that are multiplied and added up together, neighbours along the inner dimension.
struct alignas(4) Pair {
  BFloat16 first, second;
};

// Columns are a multiple of so many; so is the inner dimension of a transposed matrix.
inline constexpr std::int64_t lanes = 16;

// The right-hand matrix, [pairs of the inner dimension, columns]. From a matrix of `inner` rows,
// `stride` values apart; where their number is odd, the last has zeros for a neighbour. Rows of
// pairs are `packed_stride` apart.
void pack(const float* rows, std::int64_t stride, std::int64_t inner, std::int64_t columns,
          Pair* packed, std::int64_t packed_stride);
void pack(const BFloat16* const* rows, std::int64_t inner, std::int64_t columns, Pair* packed);
// From its transpose, of `columns` rows; `inner` is a multiple of 2 * lanes.
void pack_transposed(const float* rows, std::int64_t stride, std::int64_t inner,
                     std::int64_t columns, Pair* packed);

// The left-hand matrix by its rows, and how far apart a row's pairs are: 1 where rows are as they
// lie in memory, and the number of columns where a packed matrix is taken for its transpose.
struct Left {
  const Pair* const* rows = nullptr;
  std::int64_t stride = 1;
};

// c = a b or c += a b; c by its rows, b packed.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t pairs, const Left& a,
              const Pair* b, float* const* c, ProductResult result);

}  // namespace kolo::bfloat16_products

// Bits that tell which values of vectors of channels are not 0 (VectorLoops::find_nonzero).
namespace kolo::nonzero_bits {

using Word = std::uint64_t;
inline constexpr std::int64_t bits_of_word = 64;

// Words for one vector; bits beyond its channels are 0.
[[nodiscard]] constexpr std::int64_t words_of(std::int64_t channels) {
  return divide_up(channels, bits_of_word);
}

}  // namespace kolo::nonzero_bits
