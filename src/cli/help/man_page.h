#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace kolo {

// kolo(1), in roff: every command with its options and examples.
[[nodiscard]] std::string man_page(const CLI::App& program);

}  // namespace kolo
