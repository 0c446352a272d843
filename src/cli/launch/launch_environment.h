#pragma once

#include <functional>
#include <optional>
#include <string>

namespace kolo {

// How this process was started, as far as its environment variables tell.
struct LaunchEnvironment {
  std::string launcher;  // "Open MPI", "MPICH or PMI", "Slurm"; empty: by nobody
  int rank = 0;
  int size = 1;
  std::optional<int> local_size;     // ranks on this node, where the launcher says so
  bool in_slurm_allocation = false;  // a Slurm job, but not a rank started by srun

  [[nodiscard]] bool is_launched() const { return !launcher.empty(); }
};

// The value of an environment variable; nothing when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

[[nodiscard]] LaunchEnvironment detect_launch_environment(const EnvironmentLookup& lookup);

// From the environment of this process.
[[nodiscard]] LaunchEnvironment detect_launch_environment();

// One variable of this process's environment, for functions that take an EnvironmentLookup.
[[nodiscard]] std::optional<std::string> environment_variable(const char* name);

// InputError when the user asked for a number of ranks (0: did not ask) other than a launcher has
// started. Without a launcher it must be at most one: more have to be started (launch_ranks.h).
void require_ranks(const LaunchEnvironment& environment, int requested);

}  // namespace kolo
