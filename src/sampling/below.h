#pragma once

#include <cstdint>

#include "kolo/base/random.h"

namespace kolo {

// Uniform in [0, bound), unbiased (rejection); bound > 0. CounterRandom::below() for bounds of more
// than 32 bits: arrivals are counted beyond that.
[[nodiscard]] inline std::int64_t below(CounterRandom& random, std::int64_t bound) {
  const auto range = static_cast<std::uint64_t>(bound);
  // Numbers under this remainder would make the low results more likely than the others.
  const std::uint64_t remainder = -range % range;
  std::uint64_t number = random.next64();
  while (number < remainder) number = random.next64();
  return static_cast<std::int64_t>(number % range);
}

}  // namespace kolo
