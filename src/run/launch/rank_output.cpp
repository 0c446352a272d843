#include "run/launch/rank_output.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/machine.h"
#include "kolo/run/launch_environment.h"
#include "run/launch/signals.h"

namespace kolo {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t longest_line = 65536;
constexpr auto look_after_parent = std::chrono::milliseconds(500);
constexpr auto grace = std::chrono::milliseconds(500);  // launchers kill after a second or more

// A pipe from the program, whose lines go on to a descriptor of ours.
class Stream {
 public:
  Stream(int target, int rank) : target_(target), tagger_(rank) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(system_error_text("cannot make a pipe", errno));
    read_end_ = FileDescriptor(ends[0]);
    write_end_ = FileDescriptor(ends[1]);
  }

  void connect() const { ::dup2(write_end_.get(), target_); }  // in the child
  void close_write_end() { write_end_ = FileDescriptor(); }
  // For poll(); -1 at its end.
  [[nodiscard]] int descriptor() const { return read_end_.get(); }

  void forward() {
    std::array<char, 4096> buffer;
    const auto count = ::read(read_end_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) return;
    if (count > 0) return show(tagger_.add({buffer.data(), static_cast<std::size_t>(count)}));
    show(tagger_.finish());
    read_end_ = FileDescriptor();
  }

 private:
  void show(std::string_view text) const try {
    write_all(target_, std::as_bytes(std::span(text)),
              target_ == STDOUT_FILENO ? "stdout" : "stderr");
  } catch (const Error&) {  // nobody reads it any more; the program goes on
  }

  int target_;
  LineTagger tagger_;
  FileDescriptor read_end_, write_end_;
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

[[noreturn]] void become(const RankProgram& program, const std::vector<Stream>& streams, int log,
                         pid_t parent) {
  // A group of its own: mpirun signals groups, and a signal is for this process's parent to
  // translate, not for the program to get as it is too.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (const Stream& stream : streams) stream.connect();
  if (log >= 0) {
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
  }
  restore_openmp_binding();
  std::vector<char*> argv;
  for (const auto& word : program.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const auto message =
      "kolo run: " + system_error_text("cannot start " + program.command[0], errno) + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  ::_exit(127);
}

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

// Orphans of the program come to this process, which is their subreaper.
void kill_descendants() {
  const auto end = Clock::now() + std::chrono::seconds(5);
  while (Clock::now() < end) {
    for (const pid_t child : children_of_this_process()) ::kill(child, SIGKILL);
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

// A process that outlives this one if a launcher kills it, and then ends the program's group, which
// the launcher doesn't know. In a session of its own, so that what is meant for this process's
// group passes it by; as a child it is ended with the other descendants when all goes well.
void start_keeper(pid_t group) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(system_error_text("cannot make a pipe", errno));
  const FileDescriptor read_end(ends[0]);  // the other end is open as long as this process is
  const pid_t keeper = ::fork();
  if (keeper < 0) throw Error(system_error_text("cannot start a process", errno));
  if (keeper > 0) return;
  ::setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
  // Nothing else may be held open: a launcher waits for the end of what the ranks print.
  ::dup2(ends[0], STDIN_FILENO);
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
  ::kill(-group, SIGKILL);
  ::_exit(0);
}

// The program while it runs.
class Watch {
 public:
  Watch(const RankProgram& program, std::vector<Stream>& streams)
      : signals_({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}), streams_(streams) {
    const auto log = open_log(program);
    const pid_t self = ::getpid();
    process_ = ::fork();
    if (process_ < 0) throw Error(system_error_text("cannot start a process", errno));
    if (process_ == 0) become(program, streams, log.get(), self);
    ::setpgid(process_, process_);  // whoever is first; the other fails harmlessly
    end_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, process_, 0)));
    if (!end_.is_open()) throw Error(system_error_text("cannot watch a process", errno));
    for (Stream& stream : streams_) stream.close_write_end();
    start_keeper(process_);
  }

  // Its status as waitpid gives it.
  int wait() {
    while (!has_ended()) {
      while (const auto signal = signals_.next()) pass_on(*signal);
      if (::getppid() != parent_) pass_on(SIGTERM);
      if (deadline_ && Clock::now() >= *deadline_) ::kill(process_, SIGKILL);
    }
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

  [[nodiscard]] bool was_ended() const { return deadline_.has_value(); }

 private:
  bool has_ended() {
    std::vector<pollfd> watched = {{end_.get(), POLLIN, 0}, {signals_.descriptor(), POLLIN, 0}};
    for (const Stream& stream : streams_) watched.push_back({stream.descriptor(), POLLIN, 0});
    const auto count =
        ::poll(watched.data(), watched.size(), static_cast<int>(look_after_parent.count() / 2));
    if (count <= 0) return false;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (watched[i + 2].revents != 0) streams_[i].forward();
    }
    return watched[0].revents != 0;
  }

  void pass_on(int signal) {
    if (signal == SIGUSR1 || signal == SIGUSR2) {
      ::kill(process_, signal == SIGUSR1 ? SIGUSR1 : SIGTERM);
    } else if (!deadline_) {
      ::kill(process_, SIGTERM);
      deadline_ = Clock::now() + grace;
    }
  }

  SignalPipe signals_;
  std::vector<Stream>& streams_;
  pid_t parent_ = ::getppid();
  pid_t process_ = 0;
  FileDescriptor end_;                         // readable when the program has ended
  std::optional<Clock::time_point> deadline_;  // once it must end
};

// By waitpid's status.
std::string describe_end(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return fmt::format("was ended by signal {} ({})", signal, ::strsignal(signal));
}

}  // namespace

LineTagger::LineTagger(int rank) : tag_(fmt::format("[{}] ", rank)) {}

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
  std::vector<Stream> streams;
  if (program.tag && !program.log) {
    streams.emplace_back(STDOUT_FILENO, program.rank);
    streams.emplace_back(STDERR_FILENO, program.rank);
  }
  Watch watch(program, streams);
  const int status = watch.wait();
  kill_descendants();
  for (Stream& stream : streams) {
    while (stream.descriptor() >= 0) stream.forward();
  }
  if (status != 0 && !watch.was_ended()) {
    const auto message = fmt::format("kolo run: rank {} (on {}): {} {}\n", program.rank,
                                     host_name(), program.command[0], describe_end(status));
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace kolo
