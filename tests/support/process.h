#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kolo::testing {

// How a program ended and what it printed.
struct ProcessResult {
  int exit_code = -1;      // 128 + signal when a signal ended it
  bool timed_out = false;  // it was killed, with everything it had started
  // Processes that it had started and that outlived it by 20 seconds, or, when it timed out, that
  // were there beside it.
  int left_behind = 0;
  std::string output;  // stdout
  std::string errors;  // stderr
};

struct ProcessOptions {
  std::chrono::seconds deadline{60};
  std::map<std::string, std::string> environment;  // added to this process's own
  std::string working_directory;                   // empty: this process's own
  bool pass_output_through = false;                // leave stdout and stderr as they are
};

// Runs a program (argv[0] is looked up in PATH) and waits for it. It gets a session of its own;
// after the deadline, and when the program has ended but left children behind, every process of
// that session and every descendant is killed: nothing outlives the call. Must be called from one
// thread at a time.
[[nodiscard]] ProcessResult run_process(const std::vector<std::string>& argv,
                                        const ProcessOptions& options = {});

// The same for a program that is a function of this process: a fork of it calls the function and
// exits with what that returns. It saves the second that a program which links LibTorch takes to
// start. /proc/self tells of this process, not of the program.
[[nodiscard]] ProcessResult run_in_fork(const std::function<int()>& program,
                                        const ProcessOptions& options = {});

// The same as run_process() for ranks under a launcher that may end badly. Open MPI 4.1's locks
// itself up, in its own end, in a few of a hundred jobs in which one rank ends while others are in
// MPI_Finalize: its thread of PMIx waits for a lock of its own. So a job of which the launcher
// alone was left at the deadline is started once more, at most twice.
[[nodiscard]] ProcessResult run_job(const std::vector<std::string>& argv,
                                    const ProcessOptions& options = {});

// Sends a signal to every other process one of whose arguments contains `text` (a test's own
// folder, say).
void signal_processes_with_argument(const std::string& text, int signal);

}  // namespace kolo::testing
