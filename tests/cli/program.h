#pragma once

#include <algorithm>
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

// Whether a command starts others, by the program's path.
inline bool starts_programs(const std::vector<std::string>& arguments) {
  const auto has = [&](const char* word) {
    return std::find(arguments.begin(), arguments.end(), word) != arguments.end();
  };
  return has("-n") || has("run") || has("scale") || has("doctor");
}

// The same, where the command starts no others: in a fork of this process, which is quicker.
inline ProcessResult run_kolo(const std::vector<std::string>& arguments,
                              std::map<std::string, std::string> environment = {}) {
  if (starts_programs(arguments)) return start_kolo(arguments, std::move(environment));
  return run_in_fork([&] { return run_kolo_program(arguments); },
                     kolo_options(std::move(environment)));
}

}  // namespace kolo::testing
