#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#include "run/launch/job_contact.h"
#include "run/launch/supervise.h"

namespace kolo {

namespace {

using Clock = std::chrono::steady_clock;

// Process that a launcher has started.
struct Started {
  bool is_running = false;
  int status = 0;  // once it has ended, as of waitpid
};

Started examine(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text, field;
  std::getline(file, text);
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  Started started;
  if (fields >> field) started.is_running = field != "Z";
  while (fields >> field) started.status = std::atoi(field.c_str());  // it is the last one
  return started;
}

// Finds a launcher that outlives all processes that it started. Open MPI 4.1's may do so for ever
// where ranks of a failed job end at the same moment: a thread of its PMIx waits for a lock that
// nobody gives back.
class IdleLauncher {
 public:
  // Status of the job, once the launcher has been idle for long.
  std::optional<int> status(pid_t launcher) {
    constexpr auto patience = std::chrono::seconds(5);
    std::vector<Started> processes;
    for (const pid_t process : children_of(launcher)) processes.push_back(examine(process));
    const bool is_busy = std::ranges::any_of(processes, &Started::is_running);
    if (is_busy) last_busy_ = Clock::now();
    was_busy_ = was_busy_ || is_busy;
    if (!was_busy_ || Clock::now() - last_busy_ < patience) return std::nullopt;
    // Ranks that the launcher ended have died of its signal, not with a status.
    for (const auto& [is_running, status] : processes) {
      if (WIFEXITED(status) && WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
    }
    return exit_failed;
  }

 private:
  bool was_busy_ = false;
  Clock::time_point last_busy_{};
};

// A launcher while it runs, which is until it has closed its stderr, after all output of its ranks.
class LauncherProcess {
 public:
  LauncherProcess(const RankCommand& command, const StopPolicy& policy, SignalPipe& signals)
      : command_(command),
        requests_(policy, signals),
        process_(command,
                 {.errors = &errors_.write_end(), .ignored = requests_.ignored_at_first()}) {
    errors_.close_write_end();
  }

  JobEnd wait() {
    while (errors_.is_open()) {
      const bool is_quiet = !wait_for_something();
      for (const int signal : requests_.next()) process_.signal(signal);
      if (requests_.asked_by() != 0) errors_.expect_signals();
      errors_.show();
      if (is_quiet && command_.starts_processes) {
        if (const auto status = idle_.status(process_.process())) return give_up(*status);
      }
    }
    errors_.finish();
    return end_of_job(process_.wait(), requests_, errors_);
  }

 private:
  // Returns false when nothing has happened for a while.
  bool wait_for_something() {
    constexpr int between_requests_ms = 200, between_looks_ms = 1000;
    std::array<pollfd, 2> watched = {
        {{requests_.descriptor(), POLLIN, 0}, {errors_.descriptor(), POLLIN, 0}}};
    const int ready = ::poll(watched.data(), watched.size(),
                             requests_.repeat()          ? between_requests_ms
                             : command_.starts_processes ? between_looks_ms
                                                         : -1);
    if (ready == 0 && requests_.repeat()) process_.signal(SIGUSR1);
    return ready != 0;
  }

  // The destructor ends the launcher.
  JobEnd give_up(int status) {
    errors_.finish();
    errors_.tell(
        fmt::format("all ranks have ended, but {} has not; it is ended now", command_.argv[0]));
    return end_of_job(status, requests_, errors_);
  }

  const RankCommand& command_;
  JobErrors errors_;
  StopRequests requests_;
  Child process_;
  IdleLauncher idle_;
};

}  // namespace

JobEnd supervise_launcher(const RankCommand& command, const StopPolicy& policy,
                          SignalPipe& signals) {
  return LauncherProcess(command, policy, signals).wait();
}

}  // namespace kolo
