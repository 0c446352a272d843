#pragma once

#include <string>
#include <vector>

#include <poll.h>

#include "kolo/run/launch_ranks.h"
#include "run/launch/child.h"
#include "run/launch/launcher_output.h"
#include "run/launch/signals.h"
#include "run/launch/supervise.h"

// Contact with a job while it runs, whoever starts its ranks: what it prints, and requests to it.
namespace kolo {

// Stderr of a job's processes, which is shown as LauncherOutput filters it.
class JobErrors {
 public:
  JobErrors();

  // End that the processes write to. Closed here once all are started, so that theirs are the last.
  [[nodiscard]] const FileDescriptor& write_end() const { return pipe_.write_end; }
  void close_write_end() { pipe_.write_end = FileDescriptor(); }

  // False when the last process has closed its stderr.
  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] int descriptor() const { return pipe_.read_end.get(); }

  // Shows what has come. Never waits.
  void show();
  // Shows the rest, held back or not.
  void finish();
  // Prints a message of this process.
  void tell(const std::string& message);

  [[nodiscard]] const LauncherOutput& output() const { return output_; }
  // Tells that the job was asked to stop, by which ranks may die.
  void expect_signals() { output_.expect_signals(); }
  // True while nothing but kolo's warnings was shown.
  [[nodiscard]] bool was_silent() const { return output_.was_silent() && !has_spoken_; }

 private:
  Pipe pipe_;
  LauncherOutput output_;
  bool is_open_ = true;
  bool has_spoken_ = false;
};

// Requests to stop that come to this process as signals, and how they reach the job.
class StopRequests {
 public:
  StopRequests(const StopPolicy& policy, SignalPipe& signals)
      : policy_(policy), signals_(signals) {}

  [[nodiscard]] int descriptor() const { return signals_.descriptor(); }

  // Signals for the job, by those that have come. Says the policy's message at the first.
  [[nodiscard]] std::vector<int> next();

  // First signal that asked the job to end; 0: none.
  [[nodiscard]] int asked_by() const { return asked_by_; }

  // True if SIGUSR1 must be sent again and again, because launchers and ranks may not listen yet;
  // ranks that have heard it ignore repetitions (see StopSignal).
  [[nodiscard]] bool repeat() const { return asked_by_ != 0 && policy_.signal == SIGUSR1; }

  // Signal to the job's processes that changes nothing for those that don't listen yet; 0: none.
  [[nodiscard]] int ignored_at_first() const { return policy_.signal == SIGUSR1 ? SIGUSR1 : 0; }

 private:
  [[nodiscard]] int translate(int signal);

  const StopPolicy& policy_;
  SignalPipe& signals_;
  int asked_by_ = 0;
};

[[nodiscard]] JobEnd end_of_job(int status, const StopRequests& requests, const JobErrors& errors);

}  // namespace kolo
