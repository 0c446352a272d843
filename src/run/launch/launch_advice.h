#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kolo/run/launch_ranks.h"

namespace kolo {

// Conditions of this machine on which MPI's launchers depend.

// Time that the system takes to find a name's addresses.
struct NameLookup {
  std::string name;
  double seconds = 0;
  bool has_ended = true;  // false: it was ended after so many seconds

  [[nodiscard]] bool is_slow() const { return !has_ended || seconds >= 1; }
};

// Looks the name up by getent, which is ended at the limit.
[[nodiscard]] NameLookup look_up(const std::string& name, std::chrono::milliseconds limit);
// Looks up the names that launchers ask for, "localhost" and this machine's own.
[[nodiscard]] std::vector<NameLookup> look_up_own_names(std::chrono::milliseconds limit);

// Text "looking up localhost took 5.0 s, n1 took more than 6.0 s"; empty where none is slow.
[[nodiscard]] std::string describe_slow_names(const std::vector<NameLookup>& lookups);
// Text "add a line to /etc/hosts: 127.0.0.1 localhost n1"; empty where none is slow.
[[nodiscard]] std::string advice_on_names(const std::vector<NameLookup>& lookups);

// Bytes of Open MPI's shared memory for each rank of a machine.
inline constexpr double shared_memory_per_rank = 4.25 * (1 << 20);

struct SharedMemoryFolder {
  double total = 0, free = 0;  // bytes
};

// None: there is no such folder, or its size is unknown.
[[nodiscard]] std::optional<SharedMemoryFolder> examine_shared_memory(
    const std::filesystem::path& folder = "/dev/shm");

// Network interfaces that are up, each once.
[[nodiscard]] std::vector<std::string> network_interfaces();

struct LaunchConditions {
  int ranks = 1;
  int slots = 0;         // of the named hosts; 0: none is named
  bool are_here = true;  // all ranks run on this machine
  std::optional<SharedMemoryFolder> shared_memory = {};
  std::optional<std::uint64_t> file_size_limit = {};  // bytes (ulimit -f)
  std::vector<NameLookup> names = {};
};

// Takes as long as looking up the names, twice the limit at most.
[[nodiscard]] LaunchConditions examine_conditions(const LaunchRequest& request, bool are_here,
                                                  std::chrono::milliseconds limit);

// Reasons why a launcher may fail under these conditions, each with its remedy.
[[nodiscard]] std::vector<std::string> usual_reasons(const LaunchConditions& conditions);

}  // namespace kolo
