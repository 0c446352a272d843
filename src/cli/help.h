#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace kolo {

// What --help prints: as wide as the terminal, broken between words.
[[nodiscard]] std::shared_ptr<CLI::FormatterBase> make_help_formatter();

// kolo(1), in roff: every command with its options and examples.
[[nodiscard]] std::string man_page(const CLI::App& program);

// A script that makes bash complete the program's commands, options, their values and the settings
// of configurations: of the options that the program has.
[[nodiscard]] std::string bash_completion(const CLI::App& program);

}  // namespace kolo
