#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// The machine's name, processors and memory, and this process's part of them.
namespace kolo {

// The name of this machine; "localhost" where it has none.
[[nodiscard]] std::string host_name();

// Its processors' name, from /proc/cpuinfo; empty where that has none.
[[nodiscard]] std::string processor_name();

// Bytes of memory that the machine has; none where the system doesn't say.
[[nodiscard]] std::optional<std::int64_t> installed_memory();

// Bytes that this process could still get without others losing theirs: the system's estimate
// (MemAvailable) without GPUs' memory, or less where a control group leaves less. None where the
// system doesn't say.
[[nodiscard]] std::optional<std::int64_t> available_memory();

// The most memory that this process ever had, as the system counts it: pages shared with others
// included. Error when the system doesn't say.
[[nodiscard]] std::uint64_t peak_resident_bytes();

// Bytes that it has in memory now, from /proc/self/statm. Error where that can't be read.
[[nodiscard]] std::uint64_t resident_bytes();

// The processors that this process may use.
struct CpuLimits {
  int online = 1;               // CPUs (hardware threads) of the machine
  int affinity = 1;             // CPUs this process may run on
  int affinity_cores = 1;       // physical cores among those
  std::optional<double> quota;  // CPUs' worth of time the container or job gets, where limited

  // CPUs, or cores, that the quota leaves of the affinity: at least one.
  [[nodiscard]] int cpus() const;
  [[nodiscard]] int cores() const;
};

[[nodiscard]] CpuLimits detect_cpu_limits();

// The CPUs that this process may run on, ascending, also where OpenMP has bound this thread to one
// of its own.
[[nodiscard]] std::vector<int> allowed_cpus();

// The same by physical core: the hardware threads of each, cores by their first one.
[[nodiscard]] std::vector<std::vector<int>> allowed_cores();

// The tightest quota of the control group `self_cgroup` (the text of /proc/self/cgroup) belongs to
// and of the groups above it, versions 1 and 2, below `root` (/sys/fs/cgroup).
[[nodiscard]] std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root,
                                                     const std::string& self_cgroup);

// Free bytes of the memory nodes below `nodes` (/sys/devices/system/node) that have no processors:
// on machines such as GH200, where the system counts it as its own, the GPUs' memory.
[[nodiscard]] std::int64_t free_memory_without_processors(const std::filesystem::path& nodes);

// The bytes that are left in the fullest of the control groups that limit memory, of the same kind;
// files that are kept in memory and not in use count as left.
[[nodiscard]] std::optional<std::int64_t> cgroup_memory_left(const std::filesystem::path& root,
                                                             const std::string& self_cgroup);

// How many processes the kernel has killed for want of memory so far: of this process's control
// group, and of the whole machine. None where the system doesn't say.
struct OutOfMemoryKills {
  std::optional<std::int64_t> of_group, of_machine;
};

[[nodiscard]] OutOfMemoryKills out_of_memory_kills();

// The first of them: of the groups below `root` that limit memory, the largest count.
[[nodiscard]] std::optional<std::int64_t> cgroup_kills(const std::filesystem::path& root,
                                                       const std::string& self_cgroup);

// Tells the C library's allocator to keep freed memory instead of giving it back to the system. A
// training step frees and allocates the same large tensors again and again; getting them from the
// system each time costs a page fault, and zeroing, for every 4 KiB.
void keep_freed_memory();

// The same for other people's programs, as far as glibc goes by itself in a program that has freed
// a block of 32 MiB: smaller blocks are kept, and up to 64 MiB at the end of the heap. Nothing
// where the program or its environment has set other limits.
void keep_freed_memory_of_steps();

// Gives free memory back to the system, once, after large memory that won't be needed again.
void release_freed_memory();

}  // namespace kolo
