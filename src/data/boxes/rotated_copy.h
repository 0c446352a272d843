#pragma once

#include <vector>

#include "data/boxes/field_source.h"
#include "kolo/data/cube_symmetry.h"

namespace kolo {

// How a crop is turned. `turns_velocity`: channels 1 to 3 are the components of a vector, v'_j =
// sum_i M_ij v_i; otherwise they are scalars like the others.
struct CropTurn {
  CubeSymmetry symmetry;
  bool turns_velocity = false;
};

// Writes a crop of size^3 cells, whose first cell the view points to, turned, as [channels, size,
// size, size]. `plane` is memory to work in, kept from call to call.
void copy_rotated(const FieldView& view, std::int64_t channels, std::int64_t size,
                  const CropTurn& turn, std::vector<float>& plane, float* out);

}  // namespace kolo
