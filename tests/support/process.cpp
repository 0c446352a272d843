#include "support/process.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/read_all.h"

namespace kolo::testing {

namespace {

using Clock = std::chrono::steady_clock;

struct ProcessLine {
  pid_t pid = 0, parent = 0, session = 0;
};

// The fields of /proc/PID/stat after the command's name, which may hold anything.
std::vector<ProcessLine> all_processes() {
  std::vector<ProcessLine> lines;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    const auto end_of_name = text.rfind(')');
    if (end_of_name == std::string::npos) continue;
    std::istringstream fields(text.substr(end_of_name + 1));
    ProcessLine line;
    char state = 0;
    pid_t group = 0;
    line.pid = static_cast<pid_t>(std::stol(name));
    if (fields >> state >> line.parent >> group >> line.session && state != 'Z')
      lines.push_back(line);
  }
  return lines;
}

// The program's session and all its descendants: as this process is a subreaper, orphans stay in
// its tree.
std::vector<pid_t> survivors(pid_t session) {
  const auto processes = all_processes();
  std::vector<pid_t> found;
  const auto is_found = [&](pid_t pid) {
    return std::find(found.begin(), found.end(), pid) != found.end();
  };
  bool grown = true;
  while (grown) {
    grown = false;
    for (const auto& line : processes) {
      const bool belongs =
          line.session == session || line.parent == getpid() || is_found(line.parent);
      if (belongs && !is_found(line.pid)) {
        found.push_back(line.pid);
        grown = true;
      }
    }
  }
  return found;
}

void kill_everything(pid_t session) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto left = survivors(session);
    if (left.empty()) break;
    for (const pid_t pid : left) kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

int count_left_behind(pid_t session) {
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  auto left = survivors(session);
  while (!left.empty() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    left = survivors(session);
  }
  return static_cast<int>(left.size());
}

std::string read_and_remove(const std::filesystem::path& path) {
  std::string text = read_all(path);
  std::filesystem::remove(path);
  return text;
}

std::filesystem::path temporary_file() {
  std::string name = std::filesystem::temp_directory_path() / "kolo-test-XXXXXX";
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) throw std::runtime_error("cannot make a temporary file");
  close(descriptor);
  return name;
}

void redirect(const std::filesystem::path& path, int target) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_TRUNC);
  if (descriptor < 0 || dup2(descriptor, target) < 0) _exit(126);
  close(descriptor);
}

// The child's surroundings.
void settle(const ProcessOptions& options, const std::filesystem::path& output,
            const std::filesystem::path& errors) {
  setsid();
  if (!options.pass_output_through) {
    redirect(output, STDOUT_FILENO);
    redirect(errors, STDERR_FILENO);
  }
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!options.working_directory.empty() && chdir(options.working_directory.c_str()) != 0)
    _exit(126);
}

void become(const std::vector<std::string>& argv) {
  std::vector<char*> arguments;
  for (const auto& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
}

// `work` is done by the child.
ProcessResult run_child(const std::function<void()>& work, const ProcessOptions& options) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const auto output = temporary_file();
  const auto errors = temporary_file();
  std::cout << std::flush;
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    settle(options, output, errors);
    work();
    _exit(127);
  }

  ProcessResult result;
  const auto deadline = Clock::now() + options.deadline;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) {
      result.timed_out = true;
      result.left_behind = static_cast<int>(survivors(child).size()) - 1;
      kill_everything(child);
      waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (!result.timed_out) result.left_behind = count_left_behind(child);
  kill_everything(child);
  if (result.timed_out)  // its status may have been taken with those of what it had started
    result.exit_code = 128 + SIGKILL;
  else
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.output = read_and_remove(output);
  result.errors = read_and_remove(errors);
  return result;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options) {
  return run_child([&] { become(argv); }, options);
}

ProcessResult run_in_fork(const std::function<int()>& program, const ProcessOptions& options) {
  return run_child(
      [&] {
        const int status = program();
        std::cout << std::flush;
        std::fflush(nullptr);
        _exit(status);  // what this process has at its end, folders say, stays its own
      },
      options);
}

ProcessResult run_job(const std::vector<std::string>& argv, const ProcessOptions& options) {
  auto result = run_process(argv, options);
  for (int again = 0; again < 2 && result.timed_out && result.left_behind == 0; ++again)
    result = run_process(argv, options);
  return result;
}

void signal_processes_with_argument(const std::string& text, int signal) {
  for (const auto& line : all_processes()) {
    const auto arguments =
        read_all(std::filesystem::path("/proc/" + std::to_string(line.pid) + "/cmdline"));
    if (line.pid != getpid() && arguments.find(text) != std::string::npos) kill(line.pid, signal);
  }
}

}  // namespace kolo::testing
