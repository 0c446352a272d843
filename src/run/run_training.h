#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/run/run.h"
#include "kolo/train/observe/progress.h"
#include "run/prepared_run.h"
#include "run/run_folder.h"
#include "run/stopping.h"

namespace kolo {

// File of a run's folder that a TorchScript model is saved in when it is trained.
inline constexpr std::string_view torchscript_file = "model.pt";

// Parts of a run beside the prepared ones.
struct RunContext {
  const RunOptions& options;
  const std::vector<Observer*>& observers;
  Stopping& stopping;
  ProgressOptions progress;
  RunOrigin origin = {};  // on rank 0
};

[[nodiscard]] std::ostream& console_of(const RunOptions& options);

// Trains. Rank 0 takes the lock of the run's folder and writes there. Returns the exit status: 0,
// also where nothing is left to do, which rank 0 says; or 75 when stopped on request after a
// checkpoint. InputError before the training begins: the folder is in use, or the checkpoint to
// resume from is missing or doesn't fit. Collective.
[[nodiscard]] int run_training(PreparedRun& run, const Communicator& communicator,
                               RunContext& context);

// Policy for restarts of kolo train's ranks. They resume by the command that `resume_newest` has
// changed, or begin anew where there is no checkpoint yet; after a loss of nodes with as many ranks
// as can share batch, samples and layers. There is no restart when two attempts have failed by
// themselves after the same step, all checkpoints are damaged, or the folder is gone. out.log tells
// of each. `policy`: number of restarts and least number of ranks.
//
// Moves an earlier run's folder aside at once. The result holds the folder (RunLock) until it is
// destroyed; `run` must outlive it. InputError: another run has the folder.
[[nodiscard]] RestartPolicy training_restarts(
    LaunchRequest& request, const PreparedRun& run, const RunOptions& options, RestartPolicy policy,
    const std::function<void(std::vector<std::string>&)>& resume_newest);

}  // namespace kolo
