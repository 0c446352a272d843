#pragma once

#include "cli/launch/launch_ranks.h"
#include "cli/train/run_folder.h"

namespace kolo {

// How kolo train starts its ranks again: with --resume where the attempt before has left a
// checkpoint that can be used, otherwise from the beginning, in the same folder either way. What
// happened is written to the folder's out.log. `resume`: the first attempt goes on from a
// checkpoint too. At most `restarts` times; with none the policy never touches the folder.
//
// So that what lies in the folder after a failure can only be that run's, an earlier one is moved
// aside here and now, and said so on stdout.
[[nodiscard]] RestartPolicy training_restarts(const RunFolder& folder, bool resume, int restarts);

}  // namespace kolo
