#include "kolo/train/observe/format.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

namespace kolo {
namespace {

TEST(Format, CountsAreGrouped) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(938), "938");
  EXPECT_EQ(format_count(1000), "1 000");
  EXPECT_EQ(format_count(60000), "60 000");
  EXPECT_EQ(format_count(-1281167), "-1 281 167");
  EXPECT_EQ(format_count(-100), "-100");
  EXPECT_EQ(format_count(std::numeric_limits<std::int64_t>::min()), "-9 223 372 036 854 775 808");
}

TEST(Format, LossesKeepTheDigitsThatMatter) {
  EXPECT_EQ(format_loss(2.302585), "2.3026");
  EXPECT_EQ(format_loss(.31207), "0.3121");
  EXPECT_EQ(format_loss(.0142803), "0.01428");
  EXPECT_EQ(format_loss(.004771), "0.004771");
  EXPECT_EQ(format_loss(.00012), "0.0001200");
  EXPECT_EQ(format_loss(3.2e-6), "3.200e-06");
  EXPECT_EQ(format_loss(0), "0.0000");
  EXPECT_EQ(format_loss(-.05), "-0.05000");
  EXPECT_EQ(format_loss(std::nan("")), "nan");
}

TEST(Format, RatesKeepTheDigitsThatMatter) {
  EXPECT_EQ(format_rate(0), "0.00");
  EXPECT_EQ(format_rate(0.0417), "0.042");
  EXPECT_EQ(format_rate(0.9999), "1.00");
  EXPECT_EQ(format_rate(3.14159), "3.14");
  EXPECT_EQ(format_rate(57.25), "57.2");
  EXPECT_EQ(format_rate(99.96), "100");
  EXPECT_EQ(format_rate(21480.4), "21 480");
  EXPECT_EQ(format_rate(std::nan("")), "?");
  EXPECT_EQ(format_rate(-1), "?");
  EXPECT_EQ(format_rate(1e300), "?");
}

TEST(Format, BytesInBinaryUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(128ULL << 20), "128 MiB");
  EXPECT_EQ(format_bytes((1ULL << 20) - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(Format, ClockTimes) {
  EXPECT_EQ(format_clock(13.6), "00:14");
  EXPECT_EQ(format_clock(725), "12:05");
  EXPECT_EQ(format_clock(3599.7), "1:00:00");
  EXPECT_EQ(format_clock(100 * 3600 + 61), "100:01:01");
  EXPECT_EQ(format_clock(std::numeric_limits<double>::infinity()), "--:--");
}

TEST(Format, Moments) {
  EXPECT_EQ(format_moment(0), "1970-01-01 00:00 UTC");
  EXPECT_EQ(format_moment(1763733900.9), "2025-11-21 14:05 UTC");
}

}  // namespace
}  // namespace kolo
