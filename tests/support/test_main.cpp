// main() of test programs: PROGRAM [--gtest_...] [SOURCE]. With SOURCE, for example
// images/image_folder_test.cpp, only the tests in it run: that is a ctest.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace {

std::vector<const ::testing::TestInfo*> all_tests() {
  std::vector<const ::testing::TestInfo*> tests;
  const auto& program = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const auto& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) tests.push_back(suite.GetTestInfo(j));
  }
  return tests;
}

bool ends_with(const std::string& path, const std::string& ending) {
  return path.size() >= ending.size() && std::equal(ending.rbegin(), ending.rend(), path.rbegin());
}

// The tests of one source, as GoogleTest's filter; empty where it has none, or where there are
// tests that no ctest would run.
std::string filter_for(const std::string& file) {
  std::string ending = "/", filter;
  ending += file;
  for (const auto* test : all_tests()) {
    if (!ends_with(test->file(), "_test.cpp")) {
      std::fprintf(stderr, "%s.%s is in %s: tests live in sources named *_test.cpp\n",
                   test->test_suite_name(), test->name(), test->file());
      return {};
    }
    if (!ends_with(test->file(), ending)) continue;
    if (!filter.empty()) filter += ':';
    filter.append(test->test_suite_name()).append(1, '.').append(test->name());
  }
  if (filter.empty()) std::fprintf(stderr, "no test is in %s\n", file.c_str());
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  if (argc > 1) {
    const std::string filter = filter_for(argv[1]);
    if (filter.empty()) return 2;
    GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}
