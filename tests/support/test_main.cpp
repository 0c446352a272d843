// main() of test programs: PROGRAM [--gtest_...] [SOURCE]. With SOURCE, for example
// images/image_folder_test.cpp, only the tests in it run: that is a ctest.
#include <gmock/gmock.h>

#include "support/test_selection.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  const auto is_wanted = [&](const ::testing::TestInfo& test) {
    return argc < 2 || kolo::testing::is_in(test, argv[1]);
  };
  if (!kolo::testing::select_tests(is_wanted)) return 2;
  return RUN_ALL_TESTS();
}
