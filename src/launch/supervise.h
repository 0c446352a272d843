#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "kolo/launch/launch_ranks.h"

namespace kolo {

// How a job ended.
struct JobEnd {
  int status = 0;    // its exit status (128 + the signal that ended it)
  int asked_by = 0;  // the first signal to this process by which it was asked to end; 0: none

  [[nodiscard]] bool was_asked() const { return asked_by != 0; }
};

// Runs mpirun or srun and waits for it. SIGINT, SIGTERM, SIGHUP and SIGUSR1 to this process reach
// it as launch_ranks.h says. It dies with this process.
[[nodiscard]] JobEnd supervise(const RankCommand& command, const StopPolicy& policy);

// How a short helper program ended and what it printed.
struct ProbeResult {
  std::optional<int> status;  // nothing: it could not be started or took too long
  std::string output;         // stdout
  std::string errors;         // stderr
};

// Runs a program with a deadline, after which it is killed with everything in its process group.
[[nodiscard]] ProbeResult probe(const RankCommand& command, std::chrono::milliseconds deadline);

}  // namespace kolo
