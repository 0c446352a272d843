#include "kolo/data/box_files.h"

#include <set>

#include <gtest/gtest.h>

#include "data/boxes/boxes.h"

namespace kolo {
namespace {

using Cell = std::array<std::int64_t, 3>;
using Matrix = std::array<std::array<int, 3>, 3>;

Matrix matrix_of(const CubeSymmetry& symmetry) {
  Matrix matrix{};
  for (std::size_t j = 0; j < 3; ++j) {
    matrix[j][static_cast<std::size_t>(symmetry.axis[j])] = symmetry.sign[j];
  }
  return matrix;
}

int determinant(const Matrix& m) {
  return m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) -
         m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
         m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
}

TEST(CubeGroup, HasEachSignedPermutationOnceRotationsFirst) {
  std::set<Matrix> matrices;
  for (std::size_t i = 0; i < 48; ++i) {
    const auto& symmetry = cube_group()[i];
    matrices.insert(matrix_of(symmetry));
    EXPECT_EQ(symmetry.determinant(), determinant(matrix_of(symmetry)));
    EXPECT_EQ(symmetry.determinant(), i < 24 ? 1 : -1);
  }
  EXPECT_EQ(matrices.size(), 48U);
  EXPECT_EQ(cube_group()[0], CubeSymmetry{});
}

// As the tutorial's table has it: number, transpose, flipped axes.
TEST(TutorialRotations, AreNumPysTransposesAndFlips) {
  struct Entry {
    std::array<std::size_t, 3> transpose;
    std::vector<std::size_t> flips;
  };
  const std::vector<Entry> table = {
      {{0, 1, 2}, {0, 1}}, {{0, 1, 2}, {0, 2}}, {{0, 1, 2}, {1, 2}},    {{1, 0, 2}, {0}},
      {{1, 0, 2}, {0, 2}}, {{1, 0, 2}, {1}},    {{1, 0, 2}, {1, 2}},    {{2, 1, 0}, {0}},
      {{2, 1, 0}, {0, 1}}, {{2, 1, 0}, {2}},    {{2, 1, 0}, {1, 2}},    {{0, 2, 1}, {1}},
      {{0, 2, 1}, {0, 1}}, {{0, 2, 1}, {2}},    {{0, 2, 1}, {0, 2}},    {{1, 2, 0}, {0, 1}},
      {{1, 2, 0}, {1, 2}}, {{1, 2, 0}, {0, 2}}, {{1, 2, 0}, {0, 1, 2}}, {{2, 0, 1}, {0, 1}},
      {{2, 0, 1}, {0, 2}}, {{2, 0, 1}, {1, 2}}, {{2, 0, 1}, {0, 1, 2}}, {{0, 1, 2}, {}}};
  ASSERT_EQ(table.size(), tutorial_rotations().size());
  constexpr std::int64_t size = 4;
  for (std::size_t number = 0; number < table.size(); ++number) {
    const auto& [transpose, flips] = table[number];
    for (std::int64_t place = 0; place < size * size * size; ++place) {
      const Cell cell{place / (size * size), place / size % size, place % size};
      Cell flipped = cell, from{};  // numpy.flip along some axes, of numpy.transpose
      for (const auto axis : flips) flipped[axis] = size - 1 - flipped[axis];
      for (std::size_t k = 0; k < 3; ++k) from[transpose[k]] = flipped[k];
      EXPECT_EQ(testing::source_of(tutorial_rotations()[number], cell, size), from)
          << "number " << number + 1;
    }
  }
}

}  // namespace
}  // namespace kolo
