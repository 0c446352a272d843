#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/run/launch_ranks.h"
#include "run/launch/launcher_messages.h"
#include "run/launch/signals.h"

namespace kolo {

// How a job ended.
struct JobEnd {
  int status = 0;    // its exit status (128 + the signal that ended it)
  int asked_by = 0;  // the first signal to this process by which it was asked to end; 0: none
  HostsInTrouble hosts = {};  // that the launcher has told of
  // Nobody has said anything on stderr, neither the launcher nor a rank, but for warnings of kolo's
  // and what LauncherNoise takes out.
  bool was_silent = false;
  std::string last_words = {};  // of what LauncherNoise took out, in one line

  [[nodiscard]] bool was_asked() const { return asked_by != 0; }
};

// Runs mpirun or srun and waits for it. SIGINT, SIGTERM, SIGHUP and SIGUSR1 to this process reach
// it as launch_ranks.h says. It dies with this process.
[[nodiscard]] JobEnd supervise(const RankCommand& command, const StopPolicy& policy);
// The same for one of several jobs, between which `signals`, of those four, catches them.
[[nodiscard]] JobEnd supervise(const RankCommand& command, const StopPolicy& policy,
                               SignalPipe& signals);

// The same for ranks that are processes of this machine (RankCommand::processes), which get their
// places in the job. `command` is what the request comes to. When one fails, those that end
// together are killed, and others are asked to end by SIGTERM before.
[[nodiscard]] JobEnd supervise_ranks(const RankCommand& command, const LaunchRequest& request,
                                     const StopPolicy& policy, SignalPipe& signals);

// Passes on what has come, as `policy` says, by `send`. `asked_by`: the first of these signals; 0:
// none yet. Returns how many have come.
int pass_on(SignalPipe& signals, const StopPolicy& policy, int& asked_by,
            const std::function<void(int signal)>& send);

// How a short helper program ended and what it printed.
struct ProbeResult {
  std::optional<int> status;  // nothing: it could not be started or took too long
  std::string output;         // stdout
  std::string errors;         // stderr
};

// Runs a program with a deadline, after which it is killed with everything in its process group.
[[nodiscard]] ProbeResult probe(const RankCommand& command, std::chrono::milliseconds deadline);

// Takes out of mpirun's standard error its boxes (between two lines of dashes) that only repeat
// that a rank has failed. One that names a killed rank stays where no rank has said anything,
// unless the job was asked to stop. Lines that count such boxes go too; all others stay.
class LauncherNoise {
 public:
  // The next piece of text; returns what is to be shown of it. A line is held back until it is
  // complete, a box until it is closed.
  [[nodiscard]] std::string filter(std::string_view text);

  // The end of the text: what is still held back.
  [[nodiscard]] std::string finish();

  // The job was asked to stop: ranks may die of that.
  void expect_signals() { knows_why_ = true; }

  // Whether nothing was shown so far but warnings of kolo's.
  [[nodiscard]] bool was_silent() const { return was_silent_; }

  // Whether a rank has said why the job ends, or it was asked to.
  [[nodiscard]] bool knows_why() const { return knows_why_; }

  // The last box that was taken out, in one line; empty: none was.
  [[nodiscard]] std::string last_words() const;

 private:
  [[nodiscard]] std::string take_line(std::string line);
  [[nodiscard]] std::string release();
  [[nodiscard]] std::string shown(std::string text);

  bool was_silent_ = true;
  bool knows_why_ = false;  // why a rank may have died of a signal
  std::string partial_line_;
  std::vector<std::string> hidden_;  // the last box that was taken out
  std::vector<std::string> box_;     // from its opening line of dashes on; empty outside
};

}  // namespace kolo
