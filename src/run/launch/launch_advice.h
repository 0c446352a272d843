#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kolo/run/launch_ranks.h"

namespace kolo {

// What the start of ranks by MPI's launcher depends on, as far as this machine can tell.

// How long the system takes to find a name's addresses.
struct NameLookup {
  std::string name;
  double seconds = 0;
  bool has_ended = true;  // no: it was given up after so many seconds

  [[nodiscard]] bool is_slow() const { return !has_ended || seconds >= 1; }
};

// Looks the name up by getent, which is ended at the limit.
[[nodiscard]] NameLookup look_up(const std::string& name, std::chrono::milliseconds limit);
// The names that launchers ask for, "localhost" and this machine's own.
[[nodiscard]] std::vector<NameLookup> look_up_own_names(std::chrono::milliseconds limit);

// "looking up localhost took 5.0 s, n1 took more than 6.0 s"; empty where none is slow.
[[nodiscard]] std::string describe_slow_names(const std::vector<NameLookup>& lookups);
// "add a line to /etc/hosts: 127.0.0.1 localhost n1"; empty where none is slow.
[[nodiscard]] std::string advice_on_names(const std::vector<NameLookup>& lookups);

// Bytes that Open MPI's shared memory takes for each rank of a machine: 4 MiB, and something.
inline constexpr double shared_memory_per_rank = 4.25 * (1 << 20);

struct SharedMemoryFolder {
  double total = 0, free = 0;  // bytes
};

// Nothing: there is no such folder, or it doesn't say.
[[nodiscard]] std::optional<SharedMemoryFolder> examine_shared_memory(
    const std::filesystem::path& folder = "/dev/shm");

// Names of the network interfaces that are up, each once.
[[nodiscard]] std::vector<std::string> network_interfaces();

struct LaunchConditions {
  int ranks = 1;
  int slots = 0;         // of the hosts that were named; 0: none was
  bool are_here = true;  // all ranks are to be on this machine
  std::optional<SharedMemoryFolder> shared_memory = {};
  std::optional<std::uint64_t> file_size_limit = {};  // bytes (ulimit -f)
  std::vector<NameLookup> names = {};
};

// Takes as long as looking up the names does, twice the limit at most.
[[nodiscard]] LaunchConditions examine_conditions(const LaunchRequest& request, bool are_here,
                                                  std::chrono::milliseconds limit);

// Why a launcher may have failed under these conditions, each reason with its remedy.
[[nodiscard]] std::vector<std::string> usual_reasons(const LaunchConditions& conditions);

}  // namespace kolo
