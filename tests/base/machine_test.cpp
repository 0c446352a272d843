#include "kolo/base/machine.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

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

TEST(AvailableMemory, IsWhatTheTightestGroupLeaves) {
  const TemporaryFolder folder;
  EXPECT_EQ(cgroup_memory_left(folder.path(), "0::/a/b\n"), std::nullopt);
  folder.write("a/b/memory.max", "max\n");
  folder.write("a/b/memory.current", "700\n");
  EXPECT_EQ(cgroup_memory_left(folder.path(), "0::/a/b\n"), std::nullopt);
  folder.write("a/memory.max", "1000\n");
  folder.write("a/memory.current", "800\n");
  EXPECT_EQ(cgroup_memory_left(folder.path(), "0::/a/b\n"), 200);
  folder.write("a/memory.stat", "anon 500\ninactive_file 150\nactive_file 50\n");
  EXPECT_EQ(cgroup_memory_left(folder.path(), "0::/a/b\n"), 350);
  folder.write("a/b/memory.max", "650\n");
  EXPECT_EQ(cgroup_memory_left(folder.path(), "0::/a/b\n"), 0);
  folder.write("memory/x/memory.limit_in_bytes", "90\n");
  folder.write("memory/x/memory.usage_in_bytes", "40\n");
  EXPECT_EQ(cgroup_memory_left(folder.path(), "4:memory:/x\n3:cpu,cpuacct:/x\n"), 50);
}

TEST(AvailableMemory, LeavesOutTheMemoryOfNodesWithoutProcessors) {
  const TemporaryFolder folder;
  EXPECT_EQ(free_memory_without_processors(folder.path() / "missing"), 0);
  folder.write("node0/cpulist", "0-71\n");
  folder.write("node0/meminfo", "Node 0 MemTotal: 500 kB\nNode 0 MemFree: 400 kB\n");
  folder.write("node1/cpulist", "\n");
  folder.write("node1/meminfo",
               "Node 1 MemTotal: 100 kB\nNode 1 MemFree:  96 kB\nNode 1 MemUsed: 4 kB\n");
  folder.write("has_cpu", "0\n");
  EXPECT_EQ(free_memory_without_processors(folder.path()), 96 * 1024);
}

TEST(AvailableMemory, IsSomeOfWhatIsInstalled) {
  EXPECT_GT(available_memory().value(), 0);
  EXPECT_LE(available_memory().value(), installed_memory().value());
}

TEST(InstalledMemory, IsTheKernelsCount) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::int64_t kilobytes = 0;
  ASSERT_TRUE(file >> word >> kilobytes);
  ASSERT_EQ(word, "MemTotal:");
  EXPECT_EQ(installed_memory(), kilobytes * 1024);
}

TEST(Machine, EachCpuIsOfOneCore) {
  const auto cores = allowed_cores();
  EXPECT_EQ(static_cast<int>(cores.size()), detect_cpu_limits().affinity_cores);
  std::vector<int> cpus;
  for (const auto& core : cores) cpus.insert(cpus.end(), core.begin(), core.end());
  std::sort(cpus.begin(), cpus.end());
  EXPECT_EQ(cpus, allowed_cpus());
}

// Page faults while so many blocks, 4 MiB in all, are allocated, written and freed.
std::int64_t faults_of_a_step() {
  const auto faults = [] {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return static_cast<std::int64_t>(use.ru_minflt);
  };
  const auto before = faults();
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < 64; ++i) {
    blocks.push_back(std::make_unique_for_overwrite<char[]>(std::size_t{64} << 10));
    std::memset(blocks.back().get(), i, std::size_t{64} << 10);
  }
  blocks.clear();
  return faults() - before;
}

// Without, each step gives its memory back, and takes 1024 faults to have it again.
TEST(FreedMemory, OfAStepIsThereForTheNext) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
  keep_freed_memory_of_steps();
  (void)faults_of_a_step();
  EXPECT_LT(faults_of_a_step(), 100);
}

}  // namespace
}  // namespace kolo::testing
