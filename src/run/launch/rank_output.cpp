#include "run/launch/rank_output.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/machine.h"
#include "kolo/run/launch_ranks.h"
#include "run/launch/child.h"
#include "run/launch/signals.h"

namespace kolo {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t longest_line = 65536;
constexpr int look_after_parent_ms = 250;
constexpr auto grace = std::chrono::milliseconds(500);  // launchers kill after a second or more

// Pipe from the program, whose tagged lines go to a descriptor of this process.
class Stream {
 public:
  Stream(int target, int rank) : target_(target), tagger_(rank) {}

  [[nodiscard]] const FileDescriptor* write_end() const { return &pipe_.write_end; }
  void close_write_end() { pipe_.write_end = FileDescriptor(); }
  // Descriptor for poll(); -1 at the end.
  [[nodiscard]] int descriptor() const { return pipe_.read_end.get(); }

  void forward() {
    std::array<char, 4096> buffer;
    const auto count = ::read(descriptor(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) return;
    if (count > 0) return show(tagger_.add({buffer.data(), static_cast<std::size_t>(count)}));
    show(tagger_.finish());
    pipe_.read_end = FileDescriptor();
  }

 private:
  void show(std::string_view text) const try {
    write_all(target_, std::as_bytes(std::span(text)),
              target_ == STDOUT_FILENO ? "stdout" : "stderr");
  } catch (const Error&) {  // nobody reads it any more; the program continues
  }

  int target_;
  LineTagger tagger_;
  Pipe pipe_;
};

void restore_openmp_binding() {
  const char* const before = std::getenv(openmp_binding_before);
  if (before == nullptr) return;
  if (*before == 0)
    ::unsetenv("OMP_PROC_BIND");
  else
    ::setenv("OMP_PROC_BIND", before, 1);
  ::unsetenv(openmp_binding_before);
}

// Kills the program's orphans, too, whose subreaper this process is.
void kill_descendants() {
  const auto end = Clock::now() + std::chrono::seconds(5);
  while (Clock::now() < end) {
    for (const pid_t child : children_of(::getpid())) ::kill(child, SIGKILL);
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

FileDescriptor open_log(const RankProgram& program) {
  if (!program.log) return {};
  FileDescriptor log(
      ::open(program.log->c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (!log.is_open())
    throw InputError(system_error_text("--logs: cannot write " + program.log->string(), errno));
  return log;
}

// Starts a process that outlives this one if a launcher kills it, and then ends the program's
// group, which the launcher doesn't know. In its own session it gets no signals to this process's
// group. Otherwise kill_descendants() ends it.
void start_keeper(pid_t group) {
  static const Pipe pipe;  // its write end is open as long as this process is
  const pid_t keeper = ::fork();
  if (keeper < 0) throw Error(system_error_text("cannot start a process", errno));
  if (keeper > 0) return;
  ::setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
  // Holds nothing else open, because a launcher waits for the end of the ranks' output.
  ::dup2(pipe.read_end.get(), STDIN_FILENO);
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
  ::kill(-group, SIGKILL);
  ::_exit(0);
}

std::string describe_end(const Child& program) {
  const int status = program.status().value();
  if (!program.was_killed()) return fmt::format("ended with status {}", status);
  return fmt::format("was ended by signal {} ({})", status - 128, ::strsignal(status - 128));
}

}  // namespace

std::string LineTagger::add(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto newline = text.find('\n');
    line_ += text.substr(0, newline);
    if (newline != text.npos || line_.size() > longest_line)
      shown += tag_ + std::exchange(line_, {}) + '\n';
    if (newline == text.npos) break;
    text.remove_prefix(newline + 1);
  }
  return shown;
}

std::string LineTagger::finish() {
  return line_.empty() ? std::string() : tag_ + std::exchange(line_, {}) + '\n';
}

int run_rank_program(const RankProgram& program) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  SignalPipe signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
  const pid_t parent = ::getppid();
  const auto log = open_log(program);
  std::vector<Stream> streams;
  ChildOptions options{.death_signal = SIGKILL};
  if (log.is_open()) {
    options.output = options.errors = &log;
  } else if (program.tag) {
    streams.emplace_back(STDOUT_FILENO, program.rank);
    streams.emplace_back(STDERR_FILENO, program.rank);
    options.output = streams[0].write_end();
    options.errors = streams[1].write_end();
  }
  restore_openmp_binding();
  Child child(RankCommand{.argv = program.command}, options);
  for (Stream& stream : streams) stream.close_write_end();
  start_keeper(child.process());

  std::optional<Clock::time_point> deadline;  // once it must end
  const auto pass_on = [&](int signal) {
    if (signal == SIGUSR1 || signal == SIGUSR2) {
      child.signal(signal == SIGUSR1 ? SIGUSR1 : SIGTERM);
    } else if (!deadline) {
      child.signal(SIGTERM);
      deadline = Clock::now() + grace;
    }
  };
  while (!child.ended()) {
    std::vector<pollfd> watched = {{child.end(), POLLIN, 0}, {signals.descriptor(), POLLIN, 0}};
    for (const Stream& stream : streams) watched.push_back({stream.descriptor(), POLLIN, 0});
    const bool is_ready = ::poll(watched.data(), watched.size(), look_after_parent_ms) > 0;
    for (std::size_t i = 0; is_ready && i < streams.size(); ++i)
      if (watched[i + 2].revents != 0) streams[i].forward();
    while (const auto signal = signals.next()) pass_on(*signal);
    if (::getppid() != parent) pass_on(SIGTERM);
    if (deadline && Clock::now() >= *deadline) child.signal(SIGKILL);
  }
  kill_descendants();
  for (Stream& stream : streams) {
    while (stream.descriptor() >= 0) stream.forward();
  }
  const int status = child.status().value();
  if (status != 0 && !deadline) {
    const auto message = fmt::format("kolo run: rank {} (on {}): {} {}\n", program.rank,
                                     host_name(), program.command[0], describe_end(child));
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  }
  return status;
}

}  // namespace kolo
