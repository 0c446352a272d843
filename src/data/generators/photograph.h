#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kolo/base/random.h"

namespace kolo {

// A JPEG file of a small image (3072 bytes as CIFAR-10 has them), enlarged to a size, an aspect
// and with a quality that `random` decides; both sides within [least_side, most_side].
[[nodiscard]] std::vector<std::byte> photograph(std::span<const std::uint8_t> pixels,
                                                CounterRandom& random, std::int64_t least_side,
                                                std::int64_t most_side);

}  // namespace kolo
