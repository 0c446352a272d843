#pragma once

#include <array>
#include <cstdint>

#include "kolo/base/host_device.h"
#include "kolo/data/cube_symmetry.h"

// Source of each number of a turned crop, for kernels on devices, which gather, and for the
// host, whose copy_rotated() scatters and gives the same bits.
namespace kolo::boxes {

// A crop as a device reads it: plain numbers.
struct PackedCrop {
  std::int32_t start[3];
  std::int32_t axis[3], sign[3];  // CubeSymmetry
  std::int32_t turns_velocity;    // channels 1 to 3 of a field that has_velocity are a vector
  std::int32_t unused[2];
};
static_assert(sizeof(PackedCrop) == 48);

struct CropElement {
  std::int64_t channel;
  std::int64_t cell[3];  // of the crop, before it is turned, counted from its start
  float factor;
};

// Source of the number at `cell` in `channel` of the result, an edge of which has `size` cells.
KOLO_HOST_DEVICE inline CropElement crop_element(const PackedCrop& crop, std::int64_t size,
                                                 std::int64_t channel,
                                                 const std::int64_t (&cell)[3]) {
  CropElement from{channel, {}, 1};
  for (int j = 0; j < 3; ++j) {
    const std::int64_t at = cell[crop.axis[j]];
    from.cell[j] = crop.sign[j] > 0 ? at : size - 1 - at;
    if (crop.turns_velocity != 0 && channel == 1 + crop.axis[j]) {
      from.channel = 1 + j;
      from.factor = static_cast<float>(crop.sign[j]);
    }
  }
  return from;
}

}  // namespace kolo::boxes
