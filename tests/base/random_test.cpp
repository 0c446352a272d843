#include "kolo/base/random.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace kolo {
namespace {

// Known answers of the Random123 distribution (kat_vectors, philox4x32, 10 rounds).
TEST(Philox, KnownAnswers) {
  using Block = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, StreamsDifferAndRepeat) {
  CounterRandom a(1, 2, 3), again(1, 2, 3), other_index(1, 2, 4), other_stream(1, 3, 3);
  const auto first = a.next64();
  EXPECT_EQ(first, again.next64());
  EXPECT_NE(first, other_index.next64());
  EXPECT_NE(first, other_stream.next64());
}

TEST(CounterRandom, BelowIsUniform) {
  CounterRandom random(7, 0, 0);
  std::vector<int> seen(6);
  for (int i = 0; i < 60000; ++i) ++seen.at(random.below(6));
  for (const int count : seen) EXPECT_NEAR(count, 10000, 500);
}

TEST(CounterRandom, NormalHasUnitVariance) {
  CounterRandom random(8, 0, 0);
  double sum = 0, squares = 0;
  constexpr int n = 100000;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, .02);
  EXPECT_NEAR(squares / n, 1, .02);
}

}  // namespace
}  // namespace kolo
