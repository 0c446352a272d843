#include "run/launch/supervise.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/run/launch_ranks.h"
#include "run/launch/child.h"
#include "run/launch/signals.h"

namespace kolo {

namespace {

using Clock = std::chrono::steady_clock;

// A process that a launcher has started.
struct Started {
  bool is_running = false;
  int status = 0;  // of one that has ended, as waitpid gives it
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

std::vector<Started> processes_started_by(pid_t launcher) {
  std::vector<Started> processes;
  std::error_code error;
  const auto threads = fmt::format("/proc/{}/task", launcher);
  for (const auto& thread : std::filesystem::directory_iterator(threads, error)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) processes.push_back(examine(child));
  }
  return processes;
}

// A launcher that goes on after the last of the processes that it started. Open MPI 4.1's does so
// for ever where ranks of a failed job ended at the same moment: a thread of its own PMIx waits for
// a lock that nobody gives back.
class IdleLauncher {
 public:
  explicit IdleLauncher(pid_t launcher) : launcher_(launcher) {}

  // What the job ended with, once the launcher has been idle for long.
  std::optional<int> status() {
    constexpr auto patience = std::chrono::seconds(5);
    const auto processes = processes_started_by(launcher_);
    const bool is_busy = std::ranges::any_of(processes, &Started::is_running);
    if (is_busy) last_busy_ = Clock::now();
    was_busy_ = was_busy_ || is_busy;
    if (!was_busy_ || Clock::now() - last_busy_ < patience) return std::nullopt;
    // Those that the launcher ended, because others failed, have died of its signal.
    for (const auto& [is_running, status] : processes) {
      if (WIFEXITED(status) && WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
    }
    return exit_failed;
  }

 private:
  pid_t launcher_;
  bool was_busy_ = false;
  Clock::time_point last_busy_{};
};

// Appends what can be read now; false at the end.
bool read_some(const FileDescriptor& descriptor, std::string& text) {
  std::array<char, 4096> buffer;
  const auto count = ::read(descriptor.get(), buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

}  // namespace

int pass_on(SignalPipe& signals, const StopPolicy& policy, int& asked_by,
            const std::function<void(int signal)>& send) {
  int count = 0;
  for (; const auto signal = signals.next(); ++count) {
    const bool is_first = asked_by == 0;
    if (*signal == SIGUSR1 && policy.signal != SIGUSR1 && policy.signal != 0) {
      send(SIGUSR1);  // as it is, for programs that know what it means
      continue;
    }
    if (is_first && !policy.message.empty())
      std::cerr << fmt::format("kolo: {}: {}\n", describe_signal(*signal), policy.message)
                << std::flush;
    const int as_it_came = *signal == SIGHUP ? SIGTERM : *signal;
    const int translated = policy.signal == 0 ? as_it_came : policy.signal;
    // Ranks that are asked with SIGUSR1 hear it once.
    const bool goes_as_usr1 = *signal == SIGUSR1 && policy.signal != SIGUSR1;
    send(is_first || goes_as_usr1 ? translated : SIGTERM);
    if (is_first) asked_by = *signal;
  }
  return count;
}

JobEnd supervise(const RankCommand& command, const StopPolicy& policy) {
  SignalPipe signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1});
  return supervise(command, policy, signals);
}

JobEnd supervise(const RankCommand& command, const StopPolicy& policy, SignalPipe& signals) {
  Pipe errors;
  const bool asks_with_usr1 = policy.signal == SIGUSR1;
  Child child(command, {.errors = &errors.write_end, .ignored = asks_with_usr1 ? SIGUSR1 : 0});
  errors.write_end = FileDescriptor();
  IdleLauncher launcher(child.process());
  LauncherNoise noise;
  LauncherMessages messages;
  int asked_by = 0;
  for (bool is_open = true; is_open;) {
    std::array<pollfd, 2> watched = {
        {{signals.descriptor(), POLLIN, 0}, {errors.read_end.get(), POLLIN, 0}}};
    // Launchers and ranks hear nothing before they listen, so that a request is repeated; ranks
    // that have heard it ignore that (see StopSignal).
    constexpr int between_requests_ms = 200, between_looks_ms = 1000;
    const bool repeats = asked_by != 0 && asks_with_usr1;
    const int ready = ::poll(watched.data(), watched.size(),
                             repeats                    ? between_requests_ms
                             : command.starts_processes ? between_looks_ms
                                                        : -1);
    if (ready < 0) continue;  // EINTR: the pipe tells
    if (const auto status =
            ready == 0 && command.starts_processes ? launcher.status() : std::nullopt) {
      std::cerr << noise.finish()
                << fmt::format("kolo: all ranks have ended, but {} has not; it is ended now\n",
                               command.argv[0])
                << std::flush;
      return {*status, asked_by, messages.hosts()};
    }
    if (ready == 0 && repeats) child.signal(SIGUSR1);
    pass_on(signals, policy, asked_by, [&](int signal) { child.signal(signal); });
    if (asked_by != 0) noise.expect_signals();
    if (watched[1].revents == 0) continue;
    std::string text;
    is_open = read_some(errors.read_end, text);
    messages.read(text);
    std::cerr << noise.filter(text) << std::flush;
  }
  std::cerr << noise.finish() << std::flush;
  const int status = child.wait();
  return {status, asked_by, messages.hosts(), noise.was_silent(), noise.last_words()};
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

namespace {

constexpr std::size_t longest_box = 30;  // lines; a longer one was no box

bool is_rule(std::string_view line) {
  return line.size() > 40 && line.find_first_not_of("-\r\n") == std::string_view::npos;
}

// What a rank says itself of its end, or the watch of another one. Warnings, and what the watch
// tells while it waits, say nothing of an end.
bool tells_an_end(std::string_view line) {
  const auto has = [&](std::string_view words) { return line.find(words) != line.npos; };
  if (has("kolo: watch: ")) return has("the job ends");
  return has("kolo: ") && !has("kolo: warning");
}

// Open MPI 4 and 5; the first also says it once more in a box of its own.
bool repeats_a_failure(const std::string& box) {
  const auto words = {"processes exited with non-zero status",
                      "Per user-direction, the job has been aborted", "MPI_ABORT was invoked",
                      "MPI_Abort() was called", "mpirun noticed that process rank"};
  return std::ranges::any_of(words,
                             [&](const char* each) { return box.find(each) != std::string::npos; });
}

// That another rank has sent such a box too, how to see all of them, and that one of them could not
// be shown.
bool is_about_boxes(std::string_view line) {
  const auto has = [&](std::string_view words) { return line.find(words) != line.npos; };
  return (has("sent help message help-mpi-api.txt / mpi") && has("more process")) ||
         has("Set MCA parameter \"orte_base_help_aggregate\" to 0") ||
         (has("ORTE_ERROR_LOG") && has("show_help.c"));
}

bool names_a_signal(const std::string& box) {
  return box.find("exited on signal") != std::string::npos;
}

}  // namespace

std::string LauncherNoise::shown(std::string text) {
  if (!text.starts_with("kolo: warning") && text.find_first_not_of(" \r\n") != text.npos)
    was_silent_ = false;
  return text;
}

std::string LauncherNoise::release() {
  return shown(join(std::exchange(box_, {}), ""));
}

std::string LauncherNoise::take_line(std::string line) {
  knows_why_ = knows_why_ || tells_an_end(line);
  if (box_.empty() && is_about_boxes(line)) return {};
  if (box_.empty() && !is_rule(line)) return shown(std::move(line));
  const bool closes = !box_.empty() && is_rule(line);
  box_.push_back(std::move(line));
  if (closes) {
    const std::string box = join(box_, "");
    if (!repeats_a_failure(box) || (names_a_signal(box) && !knows_why_)) return release();
    hidden_ = std::exchange(box_, {});
  }
  return box_.size() > longest_box ? release() : std::string();
}

std::string LauncherNoise::last_words() const {
  std::string words;
  for (const auto& line : hidden_) {
    if (is_rule(line)) continue;
    std::istringstream parts(line);
    for (std::string word; parts >> word;) words += (words.empty() ? "" : " ") + word;
  }
  return words;
}

std::string LauncherNoise::filter(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto newline = text.find('\n');
    partial_line_ += text.substr(0, newline == text.npos ? newline : newline + 1);
    if (newline == text.npos) break;
    text.remove_prefix(newline + 1);
    shown += take_line(std::exchange(partial_line_, {}));
  }
  return shown;
}

std::string LauncherNoise::finish() {
  auto rest = release();
  return rest + shown(std::exchange(partial_line_, {}));
}

}  // namespace kolo
