#include "run/launch/child.h"

#include <cerrno>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

[[noreturn]] void become(const RankCommand& command, pid_t parent, const ChildOptions& options,
                         const std::vector<cpu_set_t>& cpus) {
  if (options.ignored != 0) ::signal(options.ignored, SIG_IGN);
  // A group of its own: a terminal's Ctrl-C is for this process's parent to translate. Such a group
  // may not read the terminal.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  if (options.output != nullptr) ::dup2(options.output->get(), STDOUT_FILENO);
  if (options.errors != nullptr) ::dup2(options.errors->get(), STDERR_FILENO);
  // Processors that were taken away since make it no worse than unbound.
  if (!cpus.empty()) ::sched_setaffinity(0, cpus.size() * sizeof(cpu_set_t), cpus.data());
  for (const auto& [name, value] : command.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const auto& word : command.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const auto message =
      "kolo: " + system_error_text("cannot start " + command.argv[0], errno) + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  ::_exit(127);
}

int exit_status_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
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

Pipe::Pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(system_error_text("cannot make a pipe", errno));
  read_end = FileDescriptor(ends[0]);
  write_end = FileDescriptor(ends[1]);
}

Child::Child(const RankCommand& command, const ChildOptions& options) {
  const auto cpus = cpu_set_of(options.cpus);
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ < 0) throw Error(system_error_text("cannot start a process", errno));
  if (process_ == 0) become(command, parent, options, cpus);
  ::setpgid(process_, process_);  // whoever is first; the other fails harmlessly
}

Child::~Child() {
  if (process_ <= 0) return;
  ::kill(-process_, SIGKILL);
  (void)wait();
}

int Child::wait() {
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = 0;
  return exit_status_of(status);
}

std::optional<int> Child::ended() {
  int status = 0;
  pid_t found = 0;
  while ((found = ::waitpid(process_, &status, WNOHANG)) < 0 && errno == EINTR) {
  }
  if (found != process_) return std::nullopt;
  process_ = 0;
  return exit_status_of(status);
}

}  // namespace kolo
