#include "run/launch/supervise.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/openmp.h"
#include "comm/processes/process_region.h"
#include "kolo/base/machine.h"
#include "kolo/comm/device.h"
#include "run/launch/child.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

using Clock = std::chrono::steady_clock;

// Appends available bytes; false at the end of the file.
bool read_some(const FileDescriptor& descriptor, std::string& text) {
  std::array<char, 4096> buffer;
  const auto count = ::read(descriptor.get(), buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

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

// Processes of a job while they run: its launcher alone, or all ranks.
class Supervisor {
 public:
  Supervisor(const RankCommand& command, const LaunchRequest& request, const StopPolicy& policy,
             SignalPipe& signals)
      : command_(command), request_(request), policy_(policy), signals_(signals) {
    ::fcntl(errors_.read_end.get(), F_SETFL, O_NONBLOCK);
    if (has_launcher()) {
      children_.emplace_back(command, options());
    } else {
      const ProcessRegion& region = region_.emplace(command.processes);
      const bool forks = request.main && may_fork();
      for (int rank = 0; rank < command.processes; ++rank) start_rank(region, rank, forks);
    }
    errors_.write_end = FileDescriptor();
  }

  JobEnd wait() {
    while (is_running()) {
      const bool is_quiet = !wait_for_something();
      pass_on_signals();
      show_errors();
      if (!has_launcher()) {
        look_for_ends();
        if (terminate_at_ && Clock::now() >= *terminate_at_) terminate();
        if (kill_at_ && Clock::now() >= *kill_at_) signal_all(SIGKILL);
      } else if (is_quiet && command_.starts_processes) {
        if (const auto status = idle_.status(children_[0].process())) return give_up(*status);
      }
    }
    show_errors();
    std::cerr << output_.finish() << std::flush;
    if (has_launcher()) note_status(children_[0].wait());
    return end();
  }

 private:
  [[nodiscard]] bool has_launcher() const { return command_.processes == 0; }

  [[nodiscard]] ChildOptions options() const {
    return {.errors = &errors_.write_end,
            .ignored = policy_.signal == SIGUSR1 ? SIGUSR1 : 0,
            .death_signal = has_launcher() || !request_.end_together ? SIGTERM : SIGKILL};
  }

  void start_rank(const ProcessRegion& region, int rank, bool forks) {
    RankCommand own = command_;
    for (const auto& variable : region.environment(rank)) own.environment.push_back(variable);
    auto settings = options();
    if (!own.cpus.empty()) settings.cpus = own.cpus[static_cast<std::size_t>(rank)];
    if (!forks) return (void)children_.emplace_back(own, settings);
    const auto in_fork = [&] {
      ::prctl(PR_SET_NAME, fmt::format("kolo rank {}", rank).c_str());  // for ps and top
      for (const auto& [name, value] : own.environment) ::setenv(name.c_str(), value.c_str(), 1);
      return request_.main({own.argv.begin() + 1, own.argv.end()});
    };
    children_.emplace_back(in_fork, settings);
  }

  // A launcher runs until it has closed its stderr, after all output of its ranks.
  [[nodiscard]] bool is_running() const {
    if (has_launcher()) return is_open_;
    return std::ranges::any_of(children_, [](const Child& child) { return !child.status(); });
  }

  // A request is repeated, because launchers and ranks may not listen yet; ranks that have heard it
  // ignore repetitions (see StopSignal).
  [[nodiscard]] bool repeats() const { return asked_by_ != 0 && policy_.signal == SIGUSR1; }

  // Returns false when nothing has happened for a while.
  bool wait_for_something() {
    std::vector<pollfd> watched = {{signals_.descriptor(), POLLIN, 0}};
    if (is_open_) watched.push_back({errors_.read_end.get(), POLLIN, 0});
    bool tells = true;
    for (const Child& child : children_) {
      if (has_launcher() || child.status()) continue;
      tells = tells && child.end() >= 0;
      watched.push_back({child.end(), POLLIN, 0});
    }
    constexpr int between_ends_ms = 20, between_requests_ms = 200, between_looks_ms = 1000;
    const int ready = ::poll(watched.data(), watched.size(),
                             !tells                      ? between_ends_ms
                             : repeats() || is_ending()  ? between_requests_ms
                             : command_.starts_processes ? between_looks_ms
                                                         : -1);
    if (ready == 0 && repeats()) signal_all(SIGUSR1);
    return ready != 0;
  }

  void pass_on_signals() {
    const bool was_asked = asked_by_ != 0;
    int sent = 0;
    for (; const auto signal = signals_.next(); ++sent) pass_on(*signal);
    if (has_launcher()) {
      if (asked_by_ != 0) output_.expect_signals();
      return;
    }
    // Kills later: a rank that missed the first request takes SIGTERM for it, and a stopped one
    // gets no signal.
    const bool must_end = was_asked || policy_.signal == SIGTERM;
    if (sent > 0 && must_end && !kill_at_) kill_at_ = Clock::now() + std::chrono::seconds(2);
  }

  void pass_on(int signal) {
    const bool is_first = asked_by_ == 0;
    const bool goes_as_usr1 = signal == SIGUSR1 && policy_.signal != SIGUSR1;
    // Passes SIGUSR1 on to programs that know what it means.
    if (goes_as_usr1 && policy_.signal != 0) return signal_all(SIGUSR1);
    if (is_first && !policy_.message.empty())
      std::cerr << fmt::format("kolo: {}: {}\n", describe_signal(signal), policy_.message)
                << std::flush;
    const int as_it_came = signal == SIGHUP ? SIGTERM : signal;
    const int translated = policy_.signal == 0 ? as_it_came : policy_.signal;
    // A second request is SIGTERM.
    signal_all(is_first || goes_as_usr1 ? translated : SIGTERM);
    if (is_first) asked_by_ = signal;
  }

  void show_errors() {
    std::string text;
    while (is_open_) {
      errno = 0;
      if (read_some(errors_.read_end, text)) continue;
      is_open_ = errno == EAGAIN;
      break;
    }
    if (!text.empty()) std::cerr << output_.filter(text) << std::flush;
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
    note_status(status);
    if (status == 0 || status == exit_stopped || is_ending()) return;
    const bool is_kolos = request_.end_together;
    if ((is_kolos && status == exit_wrong_input) ||
        (asked_by_ != 0 && status == 128 + policy_.signal))
      return;
    show_errors();
    // A status may tell of a signal to the program that this rank has run, or, in the watch's
    // words, to another rank.
    const auto& child = children_[rank];
    const bool names_signal = child.was_killed() || (status > 128 && !output_.knows_why());
    if (names_signal && status - 128 < NSIG)
      tell(fmt::format("rank {} (process {}) {}; the job ends", rank, child.process(),
                       describe_signal_death(status - 128)));
    else if (output_.was_silent() && !has_spoken_)
      tell(fmt::format("rank {} (process {}) has ended with status {} without a word; the job ends",
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
    kill_at_ = Clock::now() + std::chrono::seconds(2);
    signal_all(SIGTERM);
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
    for (const Child& child : children_) {
      if (child.status()) continue;
      if (signal == SIGKILL)
        child.signal_group(SIGKILL);
      else
        child.signal(signal);
    }
  }

  // The destructor ends the launcher.
  JobEnd give_up(int status) {
    std::cerr << output_.finish();
    tell(fmt::format("all ranks have ended, but {} has not; it is ended now", command_.argv[0]));
    note_status(status);
    return end();
  }

  [[nodiscard]] JobEnd end() const {
    return {status_, asked_by_, output_.hosts(), output_.was_silent() && !has_spoken_,
            output_.last_words()};
  }

  const RankCommand& command_;
  const LaunchRequest& request_;
  const StopPolicy& policy_;
  SignalPipe& signals_;
  std::optional<ProcessRegion> region_;
  Pipe errors_;
  bool is_open_ = true;
  std::vector<Child> children_;
  LauncherOutput output_;
  IdleLauncher idle_;
  bool has_spoken_ = false;
  int asked_by_ = 0;
  int status_ = 0;  // of the first child that did not end with 0
  std::optional<Clock::time_point> terminate_at_, kill_at_;
  OutOfMemoryKills kills_ = out_of_memory_kills();
};

}  // namespace

JobEnd supervise(const RankCommand& command, const LaunchRequest& request, const StopPolicy& policy,
                 SignalPipe& signals) {
  return Supervisor(command, request, policy, signals).wait();
}

JobEnd supervise(const RankCommand& command, const StopPolicy& policy) {
  SignalPipe signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1});
  return supervise(command, {}, policy, signals);
}

ProbeResult probe(const RankCommand& command, std::chrono::milliseconds deadline) {
  const auto end = Clock::now() + deadline;
  Pipe output, errors;
  Child child(command, {.output = &output.write_end, .errors = &errors.write_end});
  output.write_end = FileDescriptor();
  errors.write_end = FileDescriptor();
  ProbeResult result;
  std::array<pollfd, 2> watched = {
      {{output.read_end.get(), POLLIN, 0}, {errors.read_end.get(), POLLIN, 0}}};
  while (watched[0].fd >= 0 || watched[1].fd >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return result;
    if (::poll(watched.data(), watched.size(), static_cast<int>(left.count())) < 0) continue;
    if (watched[0].revents != 0 && !read_some(output.read_end, result.output)) watched[0].fd = -1;
    if (watched[1].revents != 0 && !read_some(errors.read_end, result.errors)) watched[1].fd = -1;
  }
  const int status = child.wait();
  if (status != 127) result.status = status;
  return result;
}

}  // namespace kolo
