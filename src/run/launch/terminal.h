#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kolo/run/launch_ranks.h"
#include "kolo/train/observe/progress.h"

namespace kolo {

// Options for progress on stdout. A rank's stdout is a pipe or terminal of the launcher's, so the
// process that starts the ranks notes the user's terminal in KOLO_TERMINAL. Foreign launchers get
// plain lines.
[[nodiscard]] ProgressOptions progress_options_from_environment(
    const EnvironmentLookup& lookup = environment_variable);

// Makes the bar of a command whose result goes to stdout: on stdout where that is a terminal (it is
// wiped away before), otherwise plain lines on stderr.
void make_bar(std::optional<ProgressBar>& bar);

// Columns of the terminal that shows the file descriptor, also through a launcher; 0: none does.
[[nodiscard]] int terminal_width(int descriptor);

// Prints "kolo: message" on stderr, broken between words at the terminal's width.
void complain(const std::string& message);

// Prints text for people on stdout; lines too long for the terminal continue indented.
void print_wrapped(std::string_view text);

// Value of KOLO_TERMINAL: "COLUMNS" or, with ASCII only, "COLUMNS ascii"; 0 columns: no terminal.
[[nodiscard]] std::string describe_terminal(const ProgressOptions& options);

}  // namespace kolo
