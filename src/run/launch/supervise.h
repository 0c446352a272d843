#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

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

// Runs the command of the request, and waits for its end: mpirun or srun, or ranks that are
// processes of this machine (RankCommand::processes). Meanwhile `signals` catches SIGINT, SIGTERM,
// SIGHUP and SIGUSR1 to this process, which reach the job as StopPolicy says. When a rank fails,
// the others are killed, after a SIGTERM where they don't end together. All die with this process.
[[nodiscard]] JobEnd supervise(const RankCommand& command, const LaunchRequest& request,
                               const StopPolicy& policy, SignalPipe& signals);
// The same for a single program that is no rank.
[[nodiscard]] JobEnd supervise(const RankCommand& command, const StopPolicy& policy);

// End and output of a short helper program.
struct ProbeResult {
  std::optional<int> status;  // none: it could not be started or took too long
  std::string output;         // stdout
  std::string errors;         // stderr
};

// Runs a program, and kills it with its process group after a deadline.
[[nodiscard]] ProbeResult probe(const RankCommand& command, std::chrono::milliseconds deadline);

// Puts a rank's number in front of each of its lines: "[3] text".
class LineTagger {
 public:
  explicit LineTagger(int rank) : tag_(fmt::format("[{}] ", rank)) {}

  // Takes the next piece of text and returns its complete lines, tagged. Holds the rest back, up to
  // a limit, until its line is complete.
  [[nodiscard]] std::string add(std::string_view text);
  // Ends the text and returns the rest.
  [[nodiscard]] std::string finish();

 private:
  std::string tag_, line_;
};

// Program of one rank of `kolo run`.
struct RankProgram {
  std::vector<std::string> command;
  int rank = 0;
  bool tag = true;                             // lines on stdout and stderr
  std::optional<std::filesystem::path> log{};  // instead of both
};

// Runs it and returns its exit status (128 + the signal that ended it). Passes SIGUSR1 on, and
// SIGUSR2 as SIGTERM. At SIGTERM, and when the launcher goes away, ends the program and all that it
// has started, after half a second by force.
[[nodiscard]] int run_rank_program(const RankProgram& program);

}  // namespace kolo
