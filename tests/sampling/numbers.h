#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kolo/sampling/reservoir.h"

// Reservoirs whose samples are numbers.
namespace kolo::testing {

using Numbers = std::vector<std::int64_t>;
constexpr auto policies =
    std::to_array({ReservoirPolicy::uniform, ReservoirPolicy::fifo, ReservoirPolicy::keep_unseen});

inline ReservoirOptions room_for(std::int64_t samples, ReservoirPolicy policy,
                                 std::uint64_t seed = 0) {
  const auto bookkeeping = policy == ReservoirPolicy::keep_unseen ? 8 : 0;
  return {.policy = policy,
          .sample_bytes = 8,
          .capacity_bytes = samples * (8 + bookkeeping),
          .seed = seed};
}

// A copy of `sample` comes.
inline Reservoir::Outcome push(Reservoir& reservoir, std::span<const std::byte> sample) {
  const auto arrival = reservoir.arrive();
  std::ranges::copy(sample.first(arrival.memory.size()), arrival.memory.begin());
  return arrival.outcome;
}

inline Reservoir::Outcome push(Reservoir& reservoir, std::int64_t number) {
  return push(reservoir, std::as_bytes(std::span(&number, 1)));
}

inline std::int64_t number_in(const Reservoir& reservoir, std::int64_t slot) {
  std::int64_t number = 0;
  std::memcpy(&number, reservoir.sample(slot).data(), sizeof(number));
  return number;
}

inline Numbers numbers_at(const Reservoir& reservoir, const Numbers& slots) {
  Numbers numbers;
  for (const auto slot : slots) numbers.push_back(number_in(reservoir, slot));
  return numbers;
}

inline Numbers all_numbers(const Reservoir& reservoir) {
  Numbers numbers;
  for (std::int64_t slot = 0; slot < reservoir.size(); ++slot)
    numbers.push_back(number_in(reservoir, slot));
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// How far counts are from equal ones: about as many as there are counts but one, if they are
// equally likely.
inline double chi_square(const std::vector<double>& counts, double expected) {
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

}  // namespace kolo::testing
