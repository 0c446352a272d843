#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>

#include "base/openmp.h"
#include "comm/processes/process_region.h"
#include "kolo/base/machine.h"
#include "kolo/comm/device.h"
#include "run/launch/job_contact.h"
#include "run/launch/supervise.h"

namespace kolo {

namespace {

using Clock = std::chrono::steady_clock;

// Tells whether ranks can be forks, which have none of this process's threads (OpenBLAS ends its
// own before a fork). OpenMP that binds its threads has already chosen their CPUs.
bool may_fork() {
  if (cuda_runtime()) return false;  // CUDA can't be used in a fork
  for (const char* const name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && std::string_view(value) != "false") return false;
  }
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error), none;
  const auto count = error ? 0 : std::distance(threads, none);
  return count == 1 || count == openblas_threads();
}

// Text "was ended by SIGTERM (Terminated)"; the out-of-memory killer is recognized by its count
// since the job began.
std::string describe_signal_death(int signal, const OutOfMemoryKills& at_start) {
  const auto name = describe_signal(signal);
  if (signal != SIGKILL) return fmt::format("was ended by {} ({})", name, ::strsignal(signal));
  const auto now = out_of_memory_kills();
  const auto are_more = [](const std::optional<std::int64_t>& before,
                           const std::optional<std::int64_t>& after) {
    return before && after && *after > *before;
  };
  if (are_more(at_start.of_group, now.of_group))
    return "was killed by SIGKILL (the kernel's out-of-memory killer, by the control group's "
           "count)";
  if (are_more(at_start.of_machine, now.of_machine))
    return "was killed by SIGKILL (the kernel's out-of-memory killer, as it seems by "
           "/proc/vmstat)";
  return "was killed by SIGKILL";
}

class RankProcesses {
 public:
  RankProcesses(const RankCommand& command, const LaunchRequest& request, const StopPolicy& policy,
                SignalPipe& signals)
      : command_(command),
        request_(request),
        policy_(policy),
        requests_(policy, signals),
        region_(command.processes) {
    const bool forks = request.main && may_fork();
    for (int rank = 0; rank < command.processes; ++rank) start(rank, forks);
    errors_.close_write_end();
  }

  JobEnd wait() {
    while (!std::ranges::all_of(children_, has_ended)) {
      wait_for_something();
      pass_on_signals();
      errors_.show();
      look_for_ends();
      if (terminate_at_ && Clock::now() >= *terminate_at_) terminate();
      if (kill_at_ && Clock::now() >= *kill_at_) signal_all(SIGKILL);
    }
    errors_.finish();
    return end_of_job(status_, requests_, errors_);
  }

 private:
  static bool has_ended(const Child& child) { return child.status().has_value(); }

  void start(int rank, bool forks) {
    RankCommand own = command_;
    for (const auto& variable : region_.environment(rank)) own.environment.push_back(variable);
    ChildOptions options{.errors = &errors_.write_end(),
                         .ignored = requests_.ignored_at_first(),
                         .death_signal = request_.end_together ? SIGKILL : SIGTERM};
    if (!own.cpus.empty()) options.cpus = own.cpus[static_cast<std::size_t>(rank)];
    if (!forks) return (void)children_.emplace_back(own, options);
    const auto in_fork = [&] {
      ::prctl(PR_SET_NAME, fmt::format("kolo rank {}", rank).c_str());  // for ps and top
      for (const auto& [name, value] : own.environment) ::setenv(name.c_str(), value.c_str(), 1);
      return request_.main({own.argv.begin() + 1, own.argv.end()});
    };
    children_.emplace_back(in_fork, options);
  }

  void wait_for_something() {
    std::vector<pollfd> watched = {{requests_.descriptor(), POLLIN, 0}};
    if (errors_.is_open()) watched.push_back({errors_.descriptor(), POLLIN, 0});
    bool tells = true;
    for (const Child& child : children_) {
      if (has_ended(child)) continue;
      tells = tells && child.end() >= 0;
      watched.push_back({child.end(), POLLIN, 0});
    }
    constexpr int between_ends_ms = 20, between_requests_ms = 200;
    const int ready = ::poll(watched.data(), watched.size(),
                             !tells                              ? between_ends_ms
                             : requests_.repeat() || is_ending() ? between_requests_ms
                                                                 : -1);
    if (ready == 0 && requests_.repeat()) signal_all(SIGUSR1);
  }

  void pass_on_signals() {
    const bool was_asked = requests_.asked_by() != 0;
    const auto signals = requests_.next();
    for (const int signal : signals) signal_all(signal);
    // Kills later: a rank that missed the first request takes SIGTERM for it, and a stopped one
    // gets no signal.
    const bool must_end = was_asked || policy_.signal == SIGTERM;
    if (!signals.empty() && must_end && !kill_at_) kill_at_ = Clock::now() + grace;
  }

  // Notes ends of ranks, those that were killed first: others may have ended because of them before
  // this process looks.
  void look_for_ends() {
    std::vector<std::size_t> ended;
    for (bool are_more = true; are_more;) {  // a rank examined earlier may have died meanwhile
      are_more = false;
      for (std::size_t rank = 0; rank < children_.size(); ++rank) {
        auto& child = children_[rank];
        if (child.status() || !child.ended()) continue;
        child.signal_group(SIGKILL);  // its descendants
        ended.push_back(rank);
        are_more = true;
      }
    }
    std::ranges::stable_partition(ended,
                                  [&](std::size_t rank) { return children_[rank].was_killed(); });
    for (const std::size_t rank : ended) note_end(rank, *children_[rank].status());
  }

  // Ranks that stop, or refuse their input, end one after another when they have saved; the other
  // ranks of a failed one would wait for it, and are ended.
  void note_end(std::size_t rank, int status) {
    // A rank that has stopped may have ended before another failed to save.
    if (status_ == 0 || (status_ == exit_stopped && status != 0)) status_ = status;
    if (status == 0 || status == exit_stopped || is_ending()) return;
    const bool is_kolos = request_.end_together;
    if ((is_kolos && status == exit_wrong_input) ||
        (requests_.asked_by() != 0 && status == 128 + policy_.signal))
      return;
    errors_.show();
    // A status may tell of a signal to the program that this rank has run, or, in the watch's
    // words, to another rank.
    const auto& child = children_[rank];
    const bool names_signal = child.was_killed() || (status > 128 && !errors_.output().knows_why());
    if (names_signal && status - 128 < NSIG)
      errors_.tell(fmt::format("rank {} (process {}) {}; the job ends", rank, child.process(),
                               describe_signal_death(status - 128, kills_)));
    else if (errors_.was_silent())
      errors_.tell(
          fmt::format("rank {} (process {}) has ended with status {} without a word; the job ends",
                      rank, child.process(), status));
    if (is_kolos) {
      kill_at_ = Clock::now();
      signal_all(SIGKILL);
    } else if (child.was_killed()) {
      terminate();
    } else {
      // This rank may have ended because of another, whose exception has given its communicator
      // back and isn't told yet.
      terminate_at_ = Clock::now() + std::chrono::seconds(1);
    }
  }

  [[nodiscard]] bool is_ending() const { return terminate_at_ || kill_at_; }

  void terminate() {
    terminate_at_.reset();
    kill_at_ = Clock::now() + grace;
    signal_all(SIGTERM);
  }

  void signal_all(int signal) {
    for (const Child& child : children_) {
      if (child.status()) continue;
      if (signal == SIGKILL)
        child.signal_group(SIGKILL);
      else
        child.signal(signal);
    }
  }

  static constexpr std::chrono::seconds grace{2};  // from a request to end to SIGKILL

  const RankCommand& command_;
  const LaunchRequest& request_;
  const StopPolicy& policy_;
  JobErrors errors_;
  StopRequests requests_;
  ProcessRegion region_;
  std::vector<Child> children_;  // by rank
  int status_ = 0;               // of the first that has failed, or stopped
  std::optional<Clock::time_point> terminate_at_, kill_at_;
  OutOfMemoryKills kills_ = out_of_memory_kills();
};

}  // namespace

JobEnd supervise_ranks(const RankCommand& command, const LaunchRequest& request,
                       const StopPolicy& policy, SignalPipe& signals) {
  return RankProcesses(command, request, policy, signals).wait();
}

}  // namespace kolo
