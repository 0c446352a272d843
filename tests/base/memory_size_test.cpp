#include "kolo/base/memory_size.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace kolo {
namespace {

TEST(InstalledMemory, IsTheKernelsCount) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::int64_t kilobytes = 0;
  ASSERT_TRUE(file >> word >> kilobytes);
  ASSERT_EQ(word, "MemTotal:");
  EXPECT_EQ(installed_memory(), kilobytes * 1024);
}

}  // namespace
}  // namespace kolo
