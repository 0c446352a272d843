#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/openmp.h"
#include "comm/processes/process_region.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/comm/device.h"
#include "run/launch/child.h"
#include "run/launch/supervise.h"
#include "run/launch/terminal.h"

// Ranks that kolo starts as processes of this machine, without MPI's launcher.
namespace kolo {

namespace {

using Clock = std::chrono::steady_clock;

// Whether a fork has all that this process has: threads stay behind. OpenBLAS starts some as it is
// loaded, and ends them before a fork. OpenMP that binds its threads has chosen their CPUs already.
bool may_fork() {
  if (cuda_runtime()) return false;  // what looks for GPUs can't be used in a fork
  for (const char* const name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && std::string_view(value) != "false") return false;
  }
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error), none;
  const auto count = error ? 0 : std::distance(threads, none);
  return count == 1 || count == openblas_threads();
}

struct Rank {
  Child process;
  pid_t number;
  FileDescriptor end;  // readable when it has ended; closed where the system has no such
  std::optional<int> status = {};

  explicit Rank(Child child)
      : process(std::move(child)),
        number(process.process()),
        end(static_cast<int>(::syscall(SYS_pidfd_open, number, 0))) {}
};

class Ranks {
 public:
  Ranks(const RankCommand& command, const LaunchRequest& request, const StopPolicy& policy,
        SignalPipe& signals)
      : policy_(policy),
        signals_(signals),
        region_(command.processes),
        is_own_(request.end_together),
        forks_(request.main && may_fork()) {
    for (int rank = 0; rank < command.processes; ++rank) start(command, request, rank);
    errors_.write_end = FileDescriptor();
    ::fcntl(errors_.read_end.get(), F_SETFL, O_NONBLOCK);
  }

  JobEnd wait() {
    while (std::ranges::any_of(ranks_, [](const Rank& rank) { return !rank.status; })) {
      wait_for_something();
      pass_on_signals();
      show_errors();
      look_for_ends();
      if (kill_at_ && Clock::now() >= *kill_at_) signal_all(SIGKILL);
    }
    show_errors();
    std::cerr << noise_.finish() << std::flush;
    return {status_, asked_by_, {}, noise_.was_silent() && !has_spoken_};
  }

 private:
  void start(const RankCommand& command, const LaunchRequest& request, int rank) {
    RankCommand own = command;
    for (const auto& variable : region_.environment(rank)) own.environment.push_back(variable);
    ChildOptions options{.errors = &errors_.write_end,
                         .ignored = policy_.signal == SIGUSR1 ? SIGUSR1 : 0,
                         .death_signal = is_own_ ? SIGKILL : SIGTERM};
    if (!command.cpus.empty()) options.cpus = command.cpus[static_cast<std::size_t>(rank)];
    if (!forks_) return (void)ranks_.emplace_back(Child(own, options));
    const auto in_fork = [&] {
      ::prctl(PR_SET_NAME, fmt::format("kolo rank {}", rank).c_str());  // for ps and top
      for (const auto& [name, value] : own.environment) ::setenv(name.c_str(), value.c_str(), 1);
      return request.main({command.argv.begin() + 1, command.argv.end()});
    };
    ranks_.emplace_back(Child(in_fork, options));
  }

  // Ranks hear nothing before they listen, so that a request is repeated; those that have heard it
  // ignore that (see StopSignal).
  [[nodiscard]] bool repeats() const { return asked_by_ != 0 && policy_.signal == SIGUSR1; }

  void wait_for_something() {
    std::vector<pollfd> watched = {{signals_.descriptor(), POLLIN, 0}};
    if (is_open_) watched.push_back({errors_.read_end.get(), POLLIN, 0});
    bool tells = true;
    for (const Rank& rank : ranks_) {
      if (rank.status) continue;
      tells = tells && rank.end.is_open();
      if (rank.end.is_open()) watched.push_back({rank.end.get(), POLLIN, 0});
    }
    const int patience_ms = !tells ? 20 : repeats() || kill_at_ ? 200 : -1;
    const int ready = ::poll(watched.data(), watched.size(), patience_ms);
    if (ready == 0 && repeats()) signal_all(SIGUSR1);
  }

  void pass_on_signals() {
    const int before = asked_by_;
    const int sent = pass_on(signals_, policy_, asked_by_, [&](int signal) { signal_all(signal); });
    // A rank that has not listened to the first would take SIGTERM for it, and a stopped one hears
    // nothing.
    const bool must_end = before != 0 || policy_.signal == SIGTERM;
    if (sent > 0 && must_end && !kill_at_) kill_at_ = Clock::now() + std::chrono::seconds(2);
  }

  void show_errors() {
    std::string text;
    while (is_open_) {
      std::array<char, 4096> buffer;
      const auto count = ::read(errors_.read_end.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      is_open_ = count > 0 || (count < 0 && errno == EAGAIN);
      if (count <= 0) break;
      text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    if (!text.empty()) std::cerr << noise_.filter(text) << std::flush;
  }

  // One that another rank's end has ended is told of after that one, whichever number it has and
  // however late this process looks: whoever was killed comes first.
  void look_for_ends() {
    std::vector<std::size_t> ended;
    for (bool are_more = true; are_more;) {  // one that was looked at before may have died first
      are_more = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        if (ranks_[rank].status) continue;
        ranks_[rank].status = ranks_[rank].process.ended();
        if (!ranks_[rank].status) continue;
        ::kill(-ranks_[rank].number, SIGKILL);  // what it has started and left
        ended.push_back(rank);
        are_more = true;
      }
    }
    std::ranges::stable_partition(
        ended, [&](std::size_t rank) { return ranks_[rank].process.was_killed(); });
    for (const std::size_t rank : ended) note_end(rank, *ranks_[rank].status);
  }

  // Ranks that stop, or refuse what they were given, end by and by, each when it has saved what it
  // has; others wait for one that fails, and have to be ended.
  void note_end(std::size_t rank, int status) {
    if (status == 0 || kill_at_) return note_status(status);
    const bool ends_others = status != exit_stopped && !(is_own_ && status == exit_wrong_input);
    note_status(status);
    if (!ends_others || (asked_by_ != 0 && status == 128 + policy_.signal)) return;
    show_errors();
    // A status tells of a signal, too: of the program that this rank has run, or, in the watch's
    // words, of another rank.
    const bool names_signal =
        ranks_[rank].process.was_killed() || (status > 128 && !noise_.knows_why());
    if (names_signal && status - 128 < NSIG)
      tell(fmt::format("rank {} (process {}) {}; the job ends", rank, ranks_[rank].number,
                       describe_signal_death(status - 128)));
    else if (noise_.was_silent() && !has_spoken_)
      tell(fmt::format("rank {} (process {}) has ended with status {} without a word; the job ends",
                       rank, ranks_[rank].number, status));
    kill_at_ = Clock::now() + (is_own_ ? std::chrono::seconds(0) : std::chrono::seconds(2));
    signal_all(is_own_ ? SIGKILL : SIGTERM);
  }

  void note_status(int status) {
    if (status_ == 0) status_ = status;
  }

  [[nodiscard]] std::string describe_signal_death(int signal) const {
    const auto name = describe_signal(signal);
    if (signal != SIGKILL) return fmt::format("was ended by {} ({})", name, ::strsignal(signal));
    const auto now = out_of_memory_kills();
    const auto are_more = [](const std::optional<std::int64_t>& before,
                             const std::optional<std::int64_t>& after) {
      return before && after && *after > *before;
    };
    if (are_more(kills_.of_group, now.of_group))
      return "was killed by SIGKILL (the kernel's out-of-memory killer, by the control group's "
             "count)";
    if (are_more(kills_.of_machine, now.of_machine))
      return "was killed by SIGKILL (the kernel's out-of-memory killer, as it seems by "
             "/proc/vmstat)";
    return "was killed by SIGKILL";
  }

  void tell(const std::string& message) {
    has_spoken_ = true;
    complain(message);
  }

  void signal_all(int signal) {
    for (const Rank& rank : ranks_) {
      if (rank.status) continue;
      if (signal == SIGKILL)
        ::kill(-rank.number, SIGKILL);
      else
        rank.process.signal(signal);
    }
  }

  const StopPolicy& policy_;
  SignalPipe& signals_;
  ProcessRegion region_;
  bool is_own_;  // ranks are kolo's own, which end in its ways
  bool forks_;
  Pipe errors_;
  bool is_open_ = true;
  std::vector<Rank> ranks_;
  LauncherNoise noise_;
  bool has_spoken_ = false;
  int asked_by_ = 0;
  int status_ = 0;  // of the first rank that did not end with 0
  std::optional<Clock::time_point> kill_at_;
  OutOfMemoryKills kills_ = out_of_memory_kills();
};

}  // namespace

JobEnd supervise_ranks(const RankCommand& command, const LaunchRequest& request,
                       const StopPolicy& policy, SignalPipe& signals) {
  return Ranks(command, request, policy, signals).wait();
}

}  // namespace kolo
