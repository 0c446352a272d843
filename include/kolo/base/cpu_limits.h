#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kolo {

// The processors that this process may use.
struct CpuLimits {
  int online = 1;               // CPUs (hardware threads) of the machine
  int affinity = 1;             // CPUs this process may run on
  int affinity_cores = 1;       // physical cores among those
  std::optional<double> quota;  // CPUs' worth of time the container or job gets, where limited

  // What is left of the affinity under the quota: at least one.
  [[nodiscard]] int cpus() const;
  [[nodiscard]] int cores() const;
};

[[nodiscard]] CpuLimits detect_cpu_limits();

// The CPUs that this process may run on, ascending.
[[nodiscard]] std::vector<int> allowed_cpus();

// The tightest quota of the control group `self_cgroup` (the text of /proc/self/cgroup) belongs to
// and of the groups above it, versions 1 and 2, below `root` (/sys/fs/cgroup).
[[nodiscard]] std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root,
                                                     const std::string& self_cgroup);

}  // namespace kolo
