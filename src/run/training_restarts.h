#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kolo/launch/launch_ranks.h"
#include "run/run_training.h"

namespace kolo {

// How kolo train starts its ranks again: by a command that `resume_newest` has changed where the
// attempt before has left a checkpoint that can be used, from the beginning where there is none
// yet, in the same folder either way; not when two attempts in a row have failed after the same
// step, none of the checkpoints can be used, or the folder is gone. It removes nothing. What
// happened is written to the folder's out.log. At most `restarts` times; with none the folder is
// only looked at.
//
// The policy holds the folder (see RunLock) until it is destroyed, and `request` tells the ranks.
// So that what lies in the folder after a failure can only be that run's, an earlier one is moved
// aside here and now, and said so. InputError: another run has the folder.
[[nodiscard]] RestartPolicy training_restarts(
    LaunchRequest& request, const PreparedRun& run, const RunOptions& options, int restarts,
    const std::function<void(std::vector<std::string>&)>& resume_newest);

}  // namespace kolo
