#pragma once

#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_folder.h"

namespace kolo::testing {

// Runs the kolo program; after two minutes everything it started is killed.
inline ProcessResult run_kolo(std::vector<std::string> arguments,
                              std::map<std::string, std::string> environment = {}) {
  arguments.insert(arguments.begin(), KOLO_PROGRAM);
  ProcessOptions options;
  options.deadline = std::chrono::seconds(120);
  options.environment = std::move(environment);
  return run_process(arguments, options);
}

}  // namespace kolo::testing
