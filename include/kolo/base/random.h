#pragma once

#include <array>
#include <cstdint>

namespace kolo {

// One block of the counter-based generator Philox4x32-10 (Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", SC11): four uniform 32-bit words that depend on nothing but counter and key,
// so that any worker on any rank gets the same numbers in any order, without a state to save.
[[nodiscard]] std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key);

// A stream of random numbers that belongs to (seed, stream, index), for example (seed, epoch,
// sample).
class CounterRandom {
 public:
  CounterRandom(std::uint64_t seed, std::uint32_t stream, std::uint64_t index)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        counter_{0, stream, static_cast<std::uint32_t>(index),
                 static_cast<std::uint32_t>(index >> 32)} {}

  [[nodiscard]] std::uint32_t next();
  [[nodiscard]] std::uint64_t next64();
  // Uniform in [0, 1), with 24 random bits.
  [[nodiscard]] float uniform();
  // Uniform in [0, bound), unbiased (rejection); bound > 0.
  [[nodiscard]] std::uint32_t below(std::uint32_t bound);
  // Standard normal (Box-Muller).
  [[nodiscard]] float normal();

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

// A 64-bit seed for a sub-stream, for generators that take one number (LibTorch's, for instance).
[[nodiscard]] std::uint64_t derive_seed(std::uint64_t seed, std::uint32_t stream,
                                        std::uint64_t index);

}  // namespace kolo
