#pragma once

#include "cli/launch/launch_environment.h"
#include "kolo/observe/progress.h"

namespace kolo {

// How progress is shown on stdout. Under `kolo ... -n N` a rank's stdout is a pipe or terminal of
// mpirun's: what the user sees it on was noted in KOLO_TERMINAL by the process that started the
// ranks. Under a foreign launcher: plain lines.
[[nodiscard]] ProgressOptions progress_options_from_environment();
[[nodiscard]] ProgressOptions progress_options_from_environment(const EnvironmentLookup& lookup);

// The value of KOLO_TERMINAL for these options: "COLUMNS" or, with ASCII only, "COLUMNS ascii";
// the number is 0 for anything but a terminal.
[[nodiscard]] std::string describe_terminal(const ProgressOptions& options);

}  // namespace kolo
