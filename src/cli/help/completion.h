#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace kolo {

// A script that makes bash complete the program's commands, options, their values and the settings
// of configurations: of the options that the program has.
[[nodiscard]] std::string bash_completion(const CLI::App& program);

}  // namespace kolo
