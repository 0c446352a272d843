#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "kolo/comm/data_type.h"

// Memory as elements of a type that is known only when the program runs.
namespace kolo {

inline std::byte* at(void* data, std::int64_t element, DataType type) {
  return static_cast<std::byte*>(data) + static_cast<std::size_t>(element) * size_of(type);
}

inline const std::byte* at(const void* data, std::int64_t element, DataType type) {
  return static_cast<const std::byte*>(data) + static_cast<std::size_t>(element) * size_of(type);
}

// Nothing for a count below 1. The addresses may be the same.
inline void copy(std::byte* to, const std::byte* from, std::int64_t elements, DataType type) {
  if (elements > 0 && to != from)
    std::memcpy(to, from, static_cast<std::size_t>(elements) * size_of(type));
}

// Index of each rank's first element in the ranks' elements, one rank after the other.
inline std::vector<std::int64_t> starts_of(std::span<const std::int64_t> counts) {
  std::vector<std::int64_t> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::int64_t{0});
  return starts;
}

// Every destination becomes the reduction of the sources, in the order given. Destinations may be
// among the sources; they must not overlap one in part. One pass: each source is read and each
// destination written once. 16-bit types are reduced in float32 and rounded once, at the end.
//
// An average is that of `divisor` ranks' values, of which there may be fewer sources: values are
// multiplied by 1/divisor before they are added, so that no sum is greater than the largest value.
// Integers are added up in a type that holds every sum, and divided at the end, towards zero. Other
// operations take no notice of the divisor.
void reduce(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::int64_t count, int divisor);

// Whether partial results have to be kept in a wider type until the end: with them, a reduction
// that is done in several steps needs another type between the steps. For 16-bit floating-point
// types that is float32.
[[nodiscard]] bool needs_wide_partials(DataType type, ReduceOp op);

// The only step, from one type to the same; a first one, from a 16-bit type to float32; or the
// last, from float32 to a 16-bit type: for sum, average and product, the destination apart from the
// sources.
void reduce(DataType from, DataType to, ReduceOp op, std::span<const std::byte* const> sources,
            std::byte* destination, std::int64_t count, int divisor);

}  // namespace kolo
