#include "support/run_tests.h"

#include <cstdio>
#include <string_view>

#include <gmock/gmock.h>

namespace kolo::testing {

bool is_in(const ::testing::TestInfo& test, const std::string& source) {
  const std::string_view file = test.file();
  return file == source || (file.ends_with(source) && file[file.size() - source.size() - 1] == '/');
}

bool select_tests(const std::function<bool(const ::testing::TestInfo&)>& is_wanted) {
  const auto& program = *::testing::UnitTest::GetInstance();
  std::string others;
  bool any = false;
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const auto& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const auto& test = *suite.GetTestInfo(j);
      if (!std::string_view(test.file()).ends_with("_test.cpp")) {
        std::fprintf(stderr, "%s.%s is in %s: tests live in sources named *_test.cpp\n",
                     test.test_suite_name(), test.name(), test.file());
        return false;
      }
      if (is_wanted(test)) {
        any = true;
        continue;
      }
      if (!others.empty()) others += ':';
      others.append(test.test_suite_name()).append(1, '.').append(test.name());
    }
  }
  if (!any) std::fprintf(stderr, "no test of this program is wanted\n");
  if (!others.empty()) {
    std::string filter = GTEST_FLAG_GET(filter);
    filter += filter.find('-') == filter.npos ? '-' : ':';
    GTEST_FLAG_SET(filter, filter + others);
  }
  return any;
}

int run_tests(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  const auto is_wanted = [&](const ::testing::TestInfo& test) {
    return argc < 2 ? !std::string_view(test.file()).ends_with("_long_test.cpp")
                    : is_in(test, argv[1]);
  };
  return select_tests(is_wanted) ? RUN_ALL_TESTS() : 2;
}

}  // namespace kolo::testing
