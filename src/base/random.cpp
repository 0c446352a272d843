#include "kolo/base/random.h"

#include <cmath>
#include <numbers>

namespace kolo {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = multiplier0 * counter[0];
    const std::uint64_t product1 = multiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += weyl0;
    key[1] += weyl1;
  }
  return counter;
}

std::uint32_t CounterRandom::next() {
  if (used_ == 4) {
    block_ = philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

std::uint64_t CounterRandom::next64() {
  const std::uint64_t high = next();
  return high << 32 | next();
}

float CounterRandom::uniform() {
  return static_cast<float>(next() >> 8) * 0x1p-24F;
}

std::uint32_t CounterRandom::below(std::uint32_t bound) {
  // Numbers under this remainder would make the low results more likely than the others.
  const std::uint32_t remainder = -bound % bound;
  std::uint32_t number = next();
  while (number < remainder) number = next();
  return number % bound;
}

float CounterRandom::normal() {
  const float radius = std::sqrt(-2.0F * std::log(1.0F - uniform()));
  return radius * std::cos(2.0F * std::numbers::pi_v<float> * uniform());
}

std::uint64_t derive_seed(std::uint64_t seed, std::uint32_t stream, std::uint64_t index) {
  return CounterRandom(seed, stream, index).next64();
}

}  // namespace kolo
