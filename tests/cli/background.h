#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cli/program.h"
#include "support/read_all.h"

namespace kolo::testing {

// Runs kolo, whose process number is told to `meanwhile`, which is called from another thread; so
// the process is the leader of its group, as a program is that was started at a terminal.
inline ProcessResult run_kolo_and(std::vector<std::string> arguments,
                                  const std::function<void(pid_t)>& meanwhile,
                                  std::map<std::string, std::string> environment = {}) {
  const TemporaryFolder folder;
  const auto file = folder / "process";
  const std::string script = "echo $$ > \"$0.part\"; mv \"$0.part\" \"$0\"; exec \"$@\"";
  arguments.insert(arguments.begin(), {"sh", "-c", script, file, KOLO_PROGRAM});
  const std::jthread other([&](const std::stop_token& end) {
    pid_t process = 0;
    while (!(std::ifstream(file) >> process)) {
      if (end.stop_requested()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    meanwhile(process);
  });
  ProcessOptions options;
  options.deadline = kolo_deadline;
  options.environment = std::move(environment);
  return run_process(arguments, options);
}

// Longest time to wait for something that usually takes seconds.
constexpr std::chrono::minutes longest_wait(3);

// Waits until something is so; false after the longest wait.
inline bool wait_until(const std::function<bool()>& is_so) {
  const auto end = std::chrono::steady_clock::now() + longest_wait;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

inline bool wait_for_file(const std::filesystem::path& file) {
  return wait_until([&] { return std::filesystem::exists(file); });
}

inline bool wait_for_text(const std::filesystem::path& path, const std::string& text) {
  return wait_until([&] { return read_all(path).find(text) != std::string::npos; });
}

// Process of kolo of one rank that has this argument.
inline std::optional<pid_t> process_of_rank(int rank, const std::string& argument) {
  using namespace std::literals;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    const std::string name = process.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto arguments = '\0' + read_all(process.path() / "cmdline");
    if (arguments.find('\0' + argument + '\0') == std::string::npos) continue;
    const auto environment = '\0' + read_all(process.path() / "environ");
    bool is_rank = read_all(process.path() / "comm") == fmt::format("kolo rank {}\n", rank);
    for (const char* variable : {"KOLO_PROCESS_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"})
      is_rank |= environment.find(fmt::format("\0{}={}\0"sv, variable, rank)) != std::string::npos;
    if (is_rank) return static_cast<pid_t>(std::stol(name));
  }
  return std::nullopt;
}

// Sends a rank a signal; false if there is no such process.
inline bool signal_rank(int rank, const std::string& argument, int signal) {
  const auto process = process_of_rank(rank, argument);
  return process && ::kill(*process, signal) == 0;
}

}  // namespace kolo::testing
