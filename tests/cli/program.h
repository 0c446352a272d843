#pragma once

#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_folder.h"

namespace kolo::testing {

// Runs the kolo program; after two minutes everything it started is killed.
inline ProcessResult run_kolo(const std::vector<std::string>& arguments,
                              std::map<std::string, std::string> environment = {}) {
  std::vector<std::string> command = {KOLO_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  ProcessOptions options;
  options.deadline = std::chrono::seconds(120);
  options.environment = std::move(environment);
  return run_process(command, options);
}

}  // namespace kolo::testing
