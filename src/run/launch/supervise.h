#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "kolo/run/launch_ranks.h"
#include "run/launch/launcher_output.h"
#include "run/launch/signals.h"

namespace kolo {

// How a job ended.
struct JobEnd {
  int status = 0;    // its exit status (128 + the signal that ended it)
  int asked_by = 0;  // the first signal to this process by which it was asked to end; 0: none
  HostsInTrouble hosts = {};  // that the launcher has told of
  // Nobody has said anything on stderr, neither the launcher nor a rank, but for warnings of kolo's
  // and what LauncherOutput takes out.
  bool was_silent = false;
  std::string last_words = {};  // of what LauncherOutput took out, in one line

  [[nodiscard]] bool was_asked() const { return asked_by != 0; }
};

// Runs what the request comes to, and waits for it: mpirun or srun, or ranks that are processes of
// this machine (RankCommand::processes), which get their places in the job. Meanwhile `signals`
// catches SIGINT, SIGTERM, SIGHUP and SIGUSR1 to this process, which reach the job as
// launch_ranks.h says. When one of the ranks fails, those that end together are killed, and others
// are asked to end by SIGTERM before. All die with this process.
[[nodiscard]] JobEnd supervise(const RankCommand& command, const LaunchRequest& request,
                               const StopPolicy& policy, SignalPipe& signals);
// The same for a program that is no rank, the only one that is started.
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
