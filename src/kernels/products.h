#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/Parallel.h>

// What the kernels' own products of small matrices share (float32_products.h,
// bfloat16_products.h).
namespace kolo {

// What is done with a product: it takes the place of what is there, or is added to it. Streamed, it
// takes the place past the caches, which then needn't read it first: for results larger than they
// are, whose rows begin at multiples of `stream_alignment` bytes.
enum class ProductResult { replaces, is_added, is_streamed };

inline constexpr std::int64_t stream_alignment = 64;

// Channels whose part of a matrix stays in a cache while all rows meet it.
inline constexpr std::int64_t channels_of_block = 64;

// Calls work(first, count) for blocks of channels, side by side on LibTorch's threads. One such
// region a pass: a region for each product would cost more than the products.
template <typename Work>
void for_channels(std::int64_t channels, const Work& work) {
  constexpr auto block = channels_of_block;
  at::parallel_for(0, (channels + block - 1) / block, 1, [&](std::int64_t begin, std::int64_t end) {
    work(begin * block, std::min(end * block, channels) - begin * block);
  });
}

}  // namespace kolo
