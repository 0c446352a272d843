#include "kolo/data/cube_symmetry.h"

#include <algorithm>
#include <string_view>

namespace kolo {

namespace {

std::array<CubeSymmetry, 48> make_group() {
  std::array<CubeSymmetry, 48> group;
  std::size_t count = 0;
  std::array<int, 3> axis{0, 1, 2};
  do {
    for (int mirrored = 0; mirrored < 8; ++mirrored) {
      CubeSymmetry symmetry{.axis = axis};
      for (std::size_t j = 0; j < 3; ++j) symmetry.sign[j] = (mirrored >> j & 1) == 0 ? 1 : -1;
      group[count++] = symmetry;
    }
  } while (std::next_permutation(axis.begin(), axis.end()));
  std::stable_partition(group.begin(), group.end(),
                        [](const CubeSymmetry& symmetry) { return symmetry.determinant() == 1; });
  return group;
}

// Turn of an array by the tutorial: its axes in this order, then those marked x run backwards.
struct Turn {
  std::array<int, 3> order;
  std::string_view backwards;
};

constexpr Turn tutorial_turns[] = {
    {{0, 1, 2}, "xx."}, {{0, 1, 2}, "x.x"}, {{0, 1, 2}, ".xx"},                      //
    {{1, 0, 2}, "x.."}, {{1, 0, 2}, "x.x"}, {{1, 0, 2}, ".x."}, {{1, 0, 2}, ".xx"},  //
    {{2, 1, 0}, "x.."}, {{2, 1, 0}, "xx."}, {{2, 1, 0}, "..x"}, {{2, 1, 0}, ".xx"},  //
    {{0, 2, 1}, ".x."}, {{0, 2, 1}, "xx."}, {{0, 2, 1}, "..x"}, {{0, 2, 1}, "x.x"},  //
    {{1, 2, 0}, "xx."}, {{1, 2, 0}, ".xx"}, {{1, 2, 0}, "x.x"}, {{1, 2, 0}, "xxx"},  //
    {{2, 0, 1}, "xx."}, {{2, 0, 1}, "x.x"}, {{2, 0, 1}, ".xx"}, {{2, 0, 1}, "xxx"},  //
    {{0, 1, 2}, "..."}};

std::array<CubeSymmetry, 24> make_tutorial_rotations() {
  std::array<CubeSymmetry, 24> rotations;
  std::transform(std::begin(tutorial_turns), std::end(tutorial_turns), rotations.begin(),
                 [](const Turn& turn) {
                   CubeSymmetry symmetry;
                   for (std::size_t i = 0; i < 3; ++i) {
                     const auto from = static_cast<std::size_t>(turn.order[i]);
                     symmetry.axis[from] = static_cast<int>(i);
                     symmetry.sign[from] = turn.backwards[i] == 'x' ? -1 : 1;
                   }
                   return symmetry;
                 });
  return rotations;
}

}  // namespace

std::array<std::int64_t, 3> CubeSymmetry::source(const std::array<std::int64_t, 3>& out,
                                                 std::int64_t size) const {
  std::array<std::int64_t, 3> in{};
  for (std::size_t j = 0; j < 3; ++j) {
    const auto at = out[static_cast<std::size_t>(axis[j])];
    in[j] = sign[j] > 0 ? at : size - 1 - at;
  }
  return in;
}

int CubeSymmetry::determinant() const {
  const bool is_even = (axis[1] - axis[0] + 3) % 3 == 1;  // goes round: 012, 120, 201
  return (is_even ? 1 : -1) * sign[0] * sign[1] * sign[2];
}

CubeSymmetry compose(const CubeSymmetry& first, const CubeSymmetry& second) {
  CubeSymmetry product;
  for (std::size_t j = 0; j < 3; ++j) {
    const auto middle = static_cast<std::size_t>(first.axis[j]);
    product.axis[j] = second.axis[middle];
    product.sign[j] = first.sign[j] * second.sign[middle];
  }
  return product;
}

const std::array<CubeSymmetry, 48>& cube_group() {
  static const auto group = make_group();
  return group;
}

const std::array<CubeSymmetry, 24>& tutorial_rotations() {
  static const auto rotations = make_tutorial_rotations();
  return rotations;
}

}  // namespace kolo
