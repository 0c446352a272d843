#pragma once

#include <random>

#include "kolo/data/box_files.h"

namespace kolo::testing {

// A box of normally distributed numbers.
inline SimulationBox random_box(std::int64_t size, std::int64_t seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  SimulationBox box{.size = size, .parameters = {{"seed", static_cast<double>(seed)}}};
  for (auto* const field : {&box.nbody, &box.hydro}) {
    const auto channels = field == &box.nbody ? nbody_channels : hydro_channels;
    field->resize(static_cast<std::size_t>(channels * size * size * size));
    for (auto& value : *field) value = normal(random);
  }
  return box;
}

}  // namespace kolo::testing
