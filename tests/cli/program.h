#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "support/process.h"
#include "support/temporary_folder.h"

namespace kolo::testing {

inline ProcessOptions kolo_options(std::map<std::string, std::string> environment) {
  ProcessOptions options;
  options.deadline = std::chrono::seconds(120);
  options.environment = std::move(environment);
  return options;
}

// Runs the kolo program; after two minutes everything it started is killed.
inline ProcessResult start_kolo(const std::vector<std::string>& arguments,
                                std::map<std::string, std::string> environment = {}) {
  std::vector<std::string> command = {KOLO_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_process(command, kolo_options(std::move(environment)));
}

// The same, in a fork of this process where that will do, which is quicker. What it starts then is
// this program, too (main.cpp).
inline ProcessResult run_kolo(const std::vector<std::string>& arguments,
                              std::map<std::string, std::string> environment = {}) {
  return run_in_fork([&] { return run_kolo_program(arguments); },
                     kolo_options(std::move(environment)));
}

}  // namespace kolo::testing
