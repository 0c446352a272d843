#include "train/checkpoint/copy_values.h"

#include <algorithm>
#include <cstring>
#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "kolo/base/vectorize.h"

namespace kolo {

namespace {

// So many bytes stay in the first cache between the pass that looks and the one that stores.
constexpr std::size_t block_bytes = 8192;

template <typename Word>
KOLO_INLINE inline Word largest_without_sign(const Word* words, std::size_t count) {
  constexpr Word without_sign = std::numeric_limits<Word>::max() >> 1;
  Word largest = 0;
  for (std::size_t i = 0; i < count; ++i)
    largest = std::max(largest, static_cast<Word>(words[i] & without_sign));
  return largest;
}

KOLO_VECTORIZE std::uint16_t largest(const std::uint16_t* words, std::size_t count) {
  return largest_without_sign(words, count);
}
KOLO_VECTORIZE std::uint32_t largest(const std::uint32_t* words, std::size_t count) {
  return largest_without_sign(words, count);
}
KOLO_VECTORIZE std::uint64_t largest(const std::uint64_t* words, std::size_t count) {
  return largest_without_sign(words, count);
}

void store_past_caches(const void* from, void* to, std::size_t bytes) {
#if defined(__SSE2__)
  const auto* const source = static_cast<const __m128i*>(from);
  auto* const target = static_cast<__m128i*>(to);
  const std::size_t whole = bytes / sizeof(__m128i);
  for (std::size_t i = 0; i < whole; ++i) _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
  std::memcpy(target + whole, source + whole, bytes % sizeof(__m128i));
#else
  std::memcpy(to, from, bytes);
#endif
}

template <typename Word>
Word copy_in_blocks(std::span<const Word> from, Word* to) {
  constexpr std::size_t words = block_bytes / sizeof(Word);
  Word result = 0;
  for (std::size_t begin = 0; begin < from.size(); begin += words) {
    const auto block = from.subspan(begin, std::min(words, from.size() - begin));
    result = std::max(result, largest(block.data(), block.size()));
    store_past_caches(block.data(), to + begin, block.size_bytes());
  }
#if defined(__SSE2__)
  _mm_sfence();  // whoever is told that the copy is made sees it
#endif
  return result;
}

}  // namespace

std::uint16_t copy_values(std::span<const std::uint16_t> from, std::uint16_t* to) {
  return copy_in_blocks(from, to);
}

std::uint32_t copy_values(std::span<const std::uint32_t> from, std::uint32_t* to) {
  return copy_in_blocks(from, to);
}

std::uint64_t copy_values(std::span<const std::uint64_t> from, std::uint64_t* to) {
  return copy_in_blocks(from, to);
}

}  // namespace kolo
