#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "support/process.h"
#include "support/temporary_folder.h"

namespace kolo::testing {

constexpr std::chrono::seconds kolo_deadline = std::chrono::minutes(4);
// Deadline of tests in *_long_test.cpp, which share the machine.
constexpr std::chrono::seconds long_deadline = std::chrono::minutes(10);

inline ProcessOptions kolo_options(std::map<std::string, std::string> environment,
                                   std::chrono::seconds deadline = kolo_deadline) {
  ProcessOptions options;
  options.deadline = deadline;
  options.environment = std::move(environment);
  return options;
}

// Runs the kolo program; at the deadline everything it started is killed.
inline ProcessResult start_kolo(const std::vector<std::string>& arguments,
                                std::map<std::string, std::string> environment = {}) {
  std::vector<std::string> command = {KOLO_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_process(command, kolo_options(std::move(environment)));
}

// The same, in a fork of this process where that will do, which is quicker. What it starts then is
// this program, too (main.cpp).
inline ProcessResult run_kolo(const std::vector<std::string>& arguments,
                              std::map<std::string, std::string> environment = {},
                              std::chrono::seconds deadline = kolo_deadline) {
  return run_in_fork([&] { return run_program(arguments); },
                     kolo_options(std::move(environment), deadline));
}

}  // namespace kolo::testing
