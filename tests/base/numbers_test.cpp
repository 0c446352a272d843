#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/half.h"
#include "kolo/base/checked.h"
#include "kolo/base/clock.h"
#include "kolo/base/random.h"
#include "kolo/base/statistics.h"

namespace kolo {

namespace {

TEST(Checked, MultipliesUntilTheTypeIsFull) {
  EXPECT_EQ(checked_multiply<std::int64_t>(1LL << 31, 1LL << 31), 1LL << 62);
  EXPECT_THROW((void)checked_multiply<std::int64_t>(1LL << 32, 1LL << 32), Error);
  EXPECT_THROW((void)checked_add<std::uint32_t>(0xFFFFFFFF, 1), Error);
}

TEST(Checked, ProductOfDimensions) {
  const std::int64_t shape[] = {3, 4, 5};
  EXPECT_EQ(checked_product<std::int64_t>(shape), 60);
  EXPECT_EQ(checked_product<std::int64_t>({}), 1);
}

TEST(Checked, NarrowKeepsTheValueOrThrows) {
  EXPECT_EQ(narrow<int>(std::int64_t{5}), 5);
  EXPECT_THROW((void)narrow<int>(std::int64_t{1} << 31), Error);
  EXPECT_THROW((void)narrow<std::size_t>(-1), Error);
}

TEST(Duration, UnitsFollowTheSize) {
  EXPECT_EQ(format_duration(4.21), "4.2 s");
  EXPECT_EQ(format_duration(59.96), "1 min 00 s");
  EXPECT_EQ(format_duration(185), "3 min 05 s");
  EXPECT_EQ(format_duration(7620), "2 h 07 min");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
}

// The value of a binary16 pattern by its definition.
double defined_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Float16, EveryPatternConvertsThereAndBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const Float16 half{static_cast<std::uint16_t>(bits)};
    const double value = defined_value(half.bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(half)));
      EXPECT_TRUE(std::isnan(to_float(to_float16(to_float(half)))));
    } else {
      ASSERT_EQ(to_float(half), value) << bits;
      ASSERT_EQ(to_float16(to_float(half)).bits, half.bits);
    }
  }
}

TEST(Float16, RoundsToNearestTiesToEven) {
  for (std::uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const double low = defined_value(bits), high = defined_value(bits + 1),
                 middle = (low + high) / 2;
    const std::uint16_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(to_float16(static_cast<float>(middle)).bits, even);
    ASSERT_EQ(to_float16(std::nextafter(static_cast<float>(middle), 1e9F)).bits, bits + 1);
    ASSERT_EQ(to_float16(std::nextafter(static_cast<float>(middle), 0.0F)).bits, bits);
  }
  EXPECT_EQ(to_float16(65520.0F).bits, 0x7C00) << "rounds up to infinity";
  EXPECT_EQ(to_float16(65519.0F).bits, 0x7BFF);
}

TEST(BFloat16, EveryPatternConvertsThereAndBackAndTiesGoToEven) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const BFloat16 value{static_cast<std::uint16_t>(bits)};
    const BFloat16 again = to_bfloat16(to_float(value));
    if (std::isnan(to_float(value))) {
      EXPECT_TRUE(std::isnan(to_float(again)));
    } else {
      ASSERT_EQ(again.bits, value.bits);
    }
  }
  EXPECT_EQ(to_bfloat16(1.00390625F).bits, 0x3F80);
  EXPECT_EQ(to_bfloat16(1.01171875F).bits, 0x3F82);
}

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

TEST(Statistics, MeanAndDeviationAreOfSingleValues) {
  const auto value = mean_and_deviation({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(value.mean, 2.5);
  EXPECT_DOUBLE_EQ(value.deviation, std::sqrt(5.0 / 3));
  EXPECT_EQ(mean_and_deviation({7}).mean, 7);
  EXPECT_EQ(mean_and_deviation({7}).deviation, 0);
}

TEST(Statistics, TheMedianIsNoOutlier) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({1000, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
}

}  // namespace

}  // namespace kolo
