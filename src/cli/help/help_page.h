#pragma once

#include <memory>

#include <CLI/CLI.hpp>

namespace kolo {

// What --help prints: as wide as the terminal, broken between words.
[[nodiscard]] std::shared_ptr<CLI::FormatterBase> make_help_formatter();

}  // namespace kolo
