#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace kolo {

// One of the 48 ways to turn and mirror a cube onto itself, as a signed permutation matrix M that
// takes a cell of the result to the cell it comes from: out(i) = in(M i), with i counted from the
// cube's centre. Row j of M has sign[j] in column axis[j] and zeros elsewhere.
struct CubeSymmetry {
  std::array<int, 3> axis{0, 1, 2};
  std::array<int, 3> sign{1, 1, 1};

  // Where cell `out` (each 0 to size - 1) of the result comes from.
  [[nodiscard]] std::array<std::int64_t, 3> source(const std::array<std::int64_t, 3>& out,
                                                   std::int64_t size) const;
  [[nodiscard]] int determinant() const;  // 1: a rotation; -1: with a reflection
  bool operator==(const CubeSymmetry&) const = default;
};

// The product of the matrices, out(i) = in(first (second i)): a field to which `first` is done and
// then `second`.
[[nodiscard]] CubeSymmetry compose(const CubeSymmetry& first, const CubeSymmetry& second);

// All 48, the 24 rotations first; number 0 changes nothing.
[[nodiscard]] const std::array<CubeSymmetry, 48>& cube_group();

// The 24 of NERSC's tutorial (ml-pm-training-2022, utils/data_loader.py), in its order. They are
// distinct but no group: eight are reflections, and eight rotations are missing.
[[nodiscard]] const std::array<CubeSymmetry, 24>& tutorial_rotations();

}  // namespace kolo
