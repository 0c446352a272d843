#include "kolo/layout/virtual_ranks.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kolo/base/error.h"

namespace kolo {
namespace {

constexpr auto add_floats = [](float& left, float right) { left += right; };

// Each rank adds up what it has; then somebody all that the ranks hand over.
float sum_over(const std::vector<float>& values, int ranks) {
  const int parts = static_cast<int>(values.size());
  PartSums<float> all;
  for (int rank = 0; rank < ranks; ++rank) {
    PartSums<float> mine;
    const auto range = parts_of_rank(parts, ranks, rank);
    for (int part = range.first; part < range.end; ++part)
      mine.add({0, part}, values[static_cast<std::size_t>(part)], add_floats);
    const auto expected = partial_sums(range);
    const auto items = mine.take();
    EXPECT_EQ(items.size(), expected.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(items[i].sum, expected[i]);
      all.add(items[i].sum, items[i].value, add_floats);
    }
  }
  return std::move(all).total(add_floats);
}

TEST(VirtualRanks, RanksHaveAllPartsOnceAndInOrder) {
  for (int parts = 1; parts <= 40; ++parts) {
    for (int ranks = 1; ranks <= parts; ++ranks) {
      int next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto range = parts_of_rank(parts, ranks, rank);
        EXPECT_EQ(range.first, next);
        EXPECT_GE(range.size(), parts / ranks);
        EXPECT_LE(range.size(), (parts + ranks - 1) / ranks);
        next = range.end;
      }
      EXPECT_EQ(next, parts);
    }
  }
  EXPECT_THROW((void)parts_of_rank(2, 3, 0), Error);
  EXPECT_THROW((void)parts_of_rank(3, 3, 3), Error);
}

TEST(VirtualRanks, ARankHandsOverItsLargestSubtrees) {
  const auto sums = [](int first, int end) { return partial_sums({first, end}); };
  EXPECT_EQ(sums(0, 8), (std::vector<PartialSum>{{3, 0}}));
  EXPECT_EQ(sums(8, 12), (std::vector<PartialSum>{{2, 2}}));
  EXPECT_EQ(sums(3, 9), (std::vector<PartialSum>{{0, 3}, {2, 1}, {0, 8}}));
}

// Values of which every other order of adding gives other bits.
TEST(VirtualRanks, SumsHaveTheSameBitsOnAnyNumberOfRanks) {
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  int different_from_in_turn = 0;
  for (int parts = 1; parts <= 33; ++parts) {
    std::vector<float> values(static_cast<std::size_t>(parts));
    for (auto& value : values) value = normal(engine) * std::exp(3 * normal(engine));
    const float whole = sum_over(values, 1);
    float in_turn = 0;
    for (const float value : values) in_turn += value;
    if (in_turn != whole) ++different_from_in_turn;
    for (int ranks = 2; ranks <= parts; ++ranks)
      EXPECT_EQ(sum_over(values, ranks), whole) << parts << " parts, " << ranks << " ranks";
  }
  EXPECT_GT(different_from_in_turn, 5);
}

// The order itself, which checkpoints and other machines rely on.
TEST(VirtualRanks, PairsAreAddedFirst) {
  constexpr float large = 16777216;  // 2^24, where adding 1 is lost
  EXPECT_EQ(sum_over({large, 1, 1, 1}, 1), large + 2);
  EXPECT_EQ(sum_over({1, 1, large}, 1), large + 2);
  EXPECT_EQ(sum_over({large, 1, 1}, 1), large);
}

}  // namespace
}  // namespace kolo
