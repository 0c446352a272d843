#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// Puts a rank's number in front of each of its lines: "[3] text".
class LineTagger {
 public:
  explicit LineTagger(int rank);

  // The next piece of text; returns its complete lines, tagged. The rest is held back, up to a
  // limit, until its line is complete.
  [[nodiscard]] std::string add(std::string_view text);
  // The end of the text: what is still held back.
  [[nodiscard]] std::string finish();

 private:
  std::string tag_, line_;
};

// What `kolo run` does as the parent of one rank's program.
struct RankProgram {
  std::vector<std::string> command;
  int rank = 0;
  bool tag = true;                             // lines on stdout and stderr
  std::optional<std::filesystem::path> log{};  // instead of both
};

// Runs it and returns its exit status (128 + the signal that ended it). SIGUSR2 becomes SIGTERM to
// the program, SIGUSR1 is passed on; at SIGTERM, and when the launcher goes away, the program is
// ended, after half a second by force, and all that it has started with it.
[[nodiscard]] int run_rank_program(const RankProgram& program);

}  // namespace kolo
