#pragma once

#include <string>

#include "kolo/run/launch_ranks.h"
#include "run/launch/launcher_output.h"
#include "run/launch/signals.h"

namespace kolo {

// End of a job.
struct JobEnd {
  int status = 0;             // exit status (128 + the signal that ended it)
  int asked_by = 0;           // first signal to this process that asked it to end; 0: none
  HostsInTrouble hosts = {};  // named by the launcher
  // Neither launcher nor ranks have written to stderr, except kolo's warnings and text that
  // LauncherOutput takes out.
  bool was_silent = false;
  std::string last_words = {};  // last text that LauncherOutput took out, in one line

  [[nodiscard]] bool was_asked() const { return asked_by != 0; }
};

// Both run a job and wait for its end. Meanwhile they show its stderr, and signals to this process
// (`signals` catches SIGINT, SIGTERM, SIGHUP and SIGUSR1) reach it as StopPolicy says. The job dies
// with this process.

// Runs the command: mpirun or srun, which look after their ranks, or `kolo ... -n`.
[[nodiscard]] JobEnd supervise_launcher(const RankCommand& command, const StopPolicy& policy,
                                        SignalPipe& signals);

// Runs ranks that are processes of this machine (RankCommand::processes). When one fails, the
// others are killed, after a SIGTERM where they don't end together.
[[nodiscard]] JobEnd supervise_ranks(const RankCommand& command, const LaunchRequest& request,
                                     const StopPolicy& policy, SignalPipe& signals);

}  // namespace kolo
