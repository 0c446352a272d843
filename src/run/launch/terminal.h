#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "kolo/run/launch_ranks.h"
#include "kolo/train/observe/progress.h"

namespace kolo {

// How progress is shown on stdout. Under `kolo ... -n N` a rank's stdout is a pipe or terminal of
// mpirun's: what the user sees it on was noted in KOLO_TERMINAL by the process that started the
// ranks. Under a foreign launcher: plain lines.
[[nodiscard]] ProgressOptions progress_options_from_environment();
[[nodiscard]] ProgressOptions progress_options_from_environment(const EnvironmentLookup& lookup);

// Where a command shows how far it has come whose result goes to stdout: there too where that is a
// terminal (the bar is wiped away before), otherwise as plain lines on stderr.
[[nodiscard]] std::ostream& progress_stream(const ProgressOptions& options);

// The columns of the terminal that the file descriptor is shown on, also where a rank's output goes
// through mpirun to it; 0 where there is none.
[[nodiscard]] int terminal_width(int descriptor);

// "kolo: message" on stderr, between words where a terminal ends.
void complain(const std::string& message);

// Prints text for people on stdout: lines that are too long for a terminal go on indented.
void print_wrapped(std::string_view text, int indent = 2);

// The value of KOLO_TERMINAL for these options: "COLUMNS" or, with ASCII only, "COLUMNS ascii";
// the number is 0 for anything but a terminal.
[[nodiscard]] std::string describe_terminal(const ProgressOptions& options);

}  // namespace kolo
