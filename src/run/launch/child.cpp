#include "run/launch/child.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/blocked_signals.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

constexpr std::array caught = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

// Keeps an ignored signal ignored: nohup's SIGHUP.
void forget_handlers() {
  for (const int signal : caught) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      ::signal(signal, SIG_DFL);
  }
}

void prepare(pid_t parent, const ChildOptions& options, const std::vector<cpu_set_t>& cpus) {
  if (options.ignored != 0) ::signal(options.ignored, SIG_IGN);
  // In a group of its own, a terminal's Ctrl-C goes to the parent alone, and the child can't read
  // the terminal.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, options.death_signal);
  if (::getppid() != parent) ::_exit(1);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  if (options.output != nullptr) ::dup2(options.output->get(), STDOUT_FILENO);
  if (options.errors != nullptr) ::dup2(options.errors->get(), STDERR_FILENO);
  // A failure leaves it unbound.
  if (!cpus.empty()) ::sched_setaffinity(0, cpus.size() * sizeof(cpu_set_t), cpus.data());
}

int execute(const RankCommand& command) {
  ::signal(SIGPIPE, SIG_DFL);  // see outlive_readers()
  for (const auto& [name, value] : command.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const auto& word : command.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const auto message =
      "kolo: " + system_error_text("cannot start " + command.argv[0], errno) + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  return 127;
}

}  // namespace

std::vector<cpu_set_t> cpu_set_of(std::span<const int> cpus) {
  std::vector<cpu_set_t> set;
  for (const int cpu : cpus) {
    const auto place = static_cast<std::size_t>(cpu);
    if (place / CPU_SETSIZE >= set.size()) set.resize(place / CPU_SETSIZE + 1);
    CPU_SET_S(place, set.size() * sizeof(cpu_set_t), set.data());
  }
  return set;
}

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code error;
  const auto threads = fmt::format("/proc/{}/task", process);
  for (const auto& thread : std::filesystem::directory_iterator(threads, error)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

Pipe::Pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(system_error_text("cannot make a pipe", errno));
  read_end = FileDescriptor(ends[0]);
  write_end = FileDescriptor(ends[1]);
}

bool Pipe::read(std::string& text) const {
  std::array<char, 4096> buffer;
  const auto count = ::read(read_end.get(), buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

Child::Child(const RankCommand& command, const ChildOptions& options)
    : Child([&] { return execute(command); }, options) {}

Child::Child(const std::function<int()>& body, const ChildOptions& options) {
  const auto cpus = cpu_set_of(options.cpus);
  const pid_t parent = ::getpid();
  (void)std::fflush(nullptr);  // or the child would print it again
  std::optional<BlockedSignals> blocked(
      std::in_place);  // the child would handle them as its parent
  process_ = ::fork();
  if (process_ < 0) throw Error(system_error_text("cannot start a process", errno));
  if (process_ == 0) {
    process_ = -1;  // the child has no child to kill
    forget_handlers();
    prepare(parent, options, cpus);
    blocked.reset();
    const int status = body();
    std::cout.flush();
    (void)std::fflush(nullptr);
    ::_exit(status);
  }
  ::setpgid(process_, process_);  // the child does it too, and the later call has no effect
  end_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, process_, 0)));
}

Child::~Child() {
  if (process_ <= 0 || status_) return;
  signal_group(SIGKILL);
  (void)wait();
}

void Child::signal(int signal) const {
  if (!status_) ::kill(process_, signal);
}

void Child::signal_group(int signal) const {
  ::kill(-process_, signal);
}

int Child::wait() {
  int status = 0;
  while (!status_ && ::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  if (!status_) note_end(status);
  return *status_;
}

std::optional<int> Child::ended() {
  if (status_) return status_;
  int status = 0;
  pid_t found = 0;
  while ((found = ::waitpid(process_, &status, WNOHANG)) < 0 && errno == EINTR) {
  }
  if (found == process_) note_end(status);
  return status_;
}

void Child::note_end(int status) {
  was_killed_ = WIFSIGNALED(status);
  status_ = was_killed_ ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

ProbeResult probe(const RankCommand& command, std::chrono::milliseconds deadline) {
  using Clock = std::chrono::steady_clock;
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
    if (watched[0].revents != 0 && !output.read(result.output)) watched[0].fd = -1;
    if (watched[1].revents != 0 && !errors.read(result.errors)) watched[1].fd = -1;
  }
  const int status = child.wait();
  if (status != 127) result.status = status;
  return result;
}

}  // namespace kolo
