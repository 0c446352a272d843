#include "kolo/base/checked.h"

#include <limits>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace kolo
