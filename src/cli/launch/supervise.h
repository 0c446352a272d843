#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cli/launch/launch_ranks.h"

namespace kolo {

// How a job ended.
struct JobEnd {
  int status = 0;          // its exit status (128 + the signal that ended it)
  bool was_asked = false;  // to end, by a signal to this process
};

// Runs mpirun or srun and waits for it. SIGINT, SIGTERM, SIGHUP and SIGUSR1 to this process reach
// it as launch_ranks.h says; `stop_signal` is what asks the ranks to stop. It dies with this
// process.
[[nodiscard]] JobEnd supervise(const RankCommand& command, int stop_signal);

// How a short helper program ended and what it printed.
struct ProbeResult {
  std::optional<int> status;  // nothing: it could not be started or took too long
  std::string output;         // stdout
  std::string errors;         // stderr
};

// Runs a program with a deadline, after which it is killed with everything in its process group.
[[nodiscard]] ProbeResult probe(const RankCommand& command, std::chrono::milliseconds deadline);

}  // namespace kolo
