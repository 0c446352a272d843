#pragma once

#include <cstdint>
#include <span>

#include "kolo/base/random.h"

namespace kolo {

inline constexpr std::int64_t garment_side = 28;

// Paints one image of 32 x 32: a garment of 28 x 28 values in [0, 1] on a background, perhaps with
// a distractor garment under it (empty: none) and an occluder over it. `random` decides everything
// else. `pixels`: red, green and blue planes, 3072 bytes.
void paint_stand_in(std::span<const float> garment, std::span<const float> distractor,
                    CounterRandom& random, std::span<std::uint8_t> pixels);

}  // namespace kolo
