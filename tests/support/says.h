#pragma once

#include <initializer_list>
#include <string_view>

#include <gtest/gtest.h>

namespace kolo {

// Success where `text` has all of `parts`; otherwise names the first that it lacks, and shows the
// text. (Cheaper to compile than a matcher: EXPECT_TRUE(says(message, {"a.yaml:3", "expected"})).)
[[nodiscard]] ::testing::AssertionResult says(std::string_view text,
                                              std::initializer_list<std::string_view> parts);

}  // namespace kolo
