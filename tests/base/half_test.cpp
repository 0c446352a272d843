#include "base/half.h"

#include <cmath>

#include <gtest/gtest.h>

namespace kolo {
namespace {

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

}  // namespace
}  // namespace kolo
