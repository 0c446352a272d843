#include "kolo/base/machine.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

TEST(CpuQuota, TakesTheTightestOfTheGroupsAbove) {
  const TemporaryFolder folder;
  folder.write("a/cpu.max", "max 100000\n");
  folder.write("a/b/cpu.max", "150000 100000\n");
  folder.write("a/b/c/cpu.max", "400000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(folder.path(), "0::/a/b/c\n"), 1.5);
  EXPECT_EQ(cgroup_cpu_quota(folder.path(), "0::/a\n"), std::nullopt);
  folder.write("cpu/x/cpu.cfs_quota_us", "50000\n");
  folder.write("cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(folder.path(), "4:memory:/x\n3:cpu,cpuacct:/x\n"), .5);
  folder.write("cpu/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cgroup_cpu_quota(folder.path(), "3:cpu,cpuacct:/x\n"), std::nullopt);
}

TEST(CpuQuota, LeavesAtLeastOneCpu) {
  CpuLimits limits{.online = 8, .affinity = 8, .affinity_cores = 4, .quota = .5};
  EXPECT_EQ(limits.cpus(), 1);
  limits.quota = 6;
  EXPECT_EQ(limits.cpus(), 6);
  EXPECT_EQ(limits.cores(), 4);
}

TEST(InstalledMemory, IsTheKernelsCount) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::int64_t kilobytes = 0;
  ASSERT_TRUE(file >> word >> kilobytes);
  ASSERT_EQ(word, "MemTotal:");
  EXPECT_EQ(installed_memory(), kilobytes * 1024);
}

}  // namespace
}  // namespace kolo::testing
