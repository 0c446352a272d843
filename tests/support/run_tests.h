#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace kolo::testing {

// True where `test` is in `source`, for example "images/image_folder_test.cpp".
[[nodiscard]] bool is_in(const ::testing::TestInfo& test, const std::string& source);

// Leaves out the tests that `is_wanted` refuses, beside those that --gtest_filter leaves out.
// Returns false, and says why on stderr, where nothing is wanted, or a test is in a source that no
// ctest would run.
[[nodiscard]] bool select_tests(const std::function<bool(const ::testing::TestInfo&)>& is_wanted);

// Body of a test program's main(): PROGRAM [--gtest_...] [SOURCE]. With SOURCE only the tests in it
// run, without it all but those in *_long_test.cpp. Returns the exit status.
[[nodiscard]] int run_tests(int argc, char** argv);

}  // namespace kolo::testing
