#pragma once

#include <cstdint>

namespace kolo::parallel {

// How a bucket is cut for the ranks, in elements: rank r owns [r * part, (r + 1) * part), a
// multiple of 16 elements, so that a cache line belongs to one rank; [remainder, count) is
// everybody's.
struct Shards {
  std::int64_t part = 0;
  std::int64_t remainder = 0;
  std::int64_t count = 0;

  Shards(std::int64_t elements, int ranks)
      : part(elements / (std::int64_t{16} * ranks) * 16),
        remainder(part * ranks),
        count(elements) {}

  [[nodiscard]] std::int64_t left_over() const { return count - remainder; }
};

}  // namespace kolo::parallel
