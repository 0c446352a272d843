#pragma once

#include <array>
#include <cstdint>

#include "data/boxes/field_source.h"

namespace kolo::testing {

// Numbers of a turned crop that aren't what the definition says, out(i) = in(M i) and
// v'_j = sum_i M_ij v_i. The view begins at the crop's first cell.
inline std::int64_t wrong_numbers(const float* found, const FieldView& view, std::int64_t channels,
                                  const std::array<std::int64_t, 3>& extent, const CropTurn& turn) {
  const auto expected_at = [&](std::int64_t channel, const std::array<std::int64_t, 3>& cell) {
    float factor = 1;
    auto from_channel = channel;
    for (std::int64_t i = 0; turn.turns_velocity && i < 3; ++i) {
      const auto component = static_cast<std::size_t>(i);
      if (channel != 1 + turn.symmetry.axis[component]) continue;
      from_channel = 1 + i;
      factor = static_cast<float>(turn.symmetry.sign[component]);
    }
    std::int64_t place = from_channel * view.strides[0];
    for (std::size_t j = 0; j < 3; ++j) {
      const auto at = cell[static_cast<std::size_t>(turn.symmetry.axis[j])];
      place += (turn.symmetry.sign[j] > 0 ? at : extent[j] - 1 - at) * view.strides[j + 1];
    }
    return factor * view.data[place];
  };
  const auto length = turned(extent, turn.symmetry);
  std::int64_t wrong = 0;
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (std::int64_t i = 0; i < length[0]; ++i)
      for (std::int64_t j = 0; j < length[1]; ++j)
        for (std::int64_t k = 0; k < length[2]; ++k)
          if (*found++ != expected_at(channel, {i, j, k})) ++wrong;
  return wrong;
}

}  // namespace kolo::testing
