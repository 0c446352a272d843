#include "kolo/base/clock.h"

#include <limits>

#include <gtest/gtest.h>

namespace kolo {
namespace {

TEST(Duration, UnitsFollowTheSize) {
  EXPECT_EQ(format_duration(4.21), "4.2 s");
  EXPECT_EQ(format_duration(59.96), "1 min 00 s");
  EXPECT_EQ(format_duration(185), "3 min 05 s");
  EXPECT_EQ(format_duration(7620), "2 h 07 min");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
}

}  // namespace
}  // namespace kolo
