#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/run/run.h"
#include "kolo/train/observe/progress.h"
#include "run/prepared_run.h"
#include "run/run_folder.h"
#include "run/run_lock.h"
#include "run/stopping.h"

namespace kolo {

// A run of this model leaves the trained script in this file of its folder.
inline constexpr std::string_view torchscript_model = "torchscript";
inline constexpr std::string_view torchscript_file = "model.pt";

// What a run has besides what is prepared.
struct RunContext {
  const RunOptions& options;
  const std::vector<Observer*>& observers;
  Stopping& stopping;
  ProgressOptions progress;
  RunOrigin origin = {};  // of rank 0
};

[[nodiscard]] std::ostream& console_of(const RunOptions& options);

// Trains, and writes the run's folder (rank 0), of which it takes the lock. Returns the exit
// status: 0, also where nothing is left to do, which rank 0 says; or 75 when stopped on request
// after a checkpoint. InputError before the training begins: the folder is in use, there is nothing
// to resume from, or it doesn't fit. Collective.
[[nodiscard]] int run_training(PreparedRun& run, const Communicator& communicator,
                               RunContext& context);

// Restarts of kolo train's ranks: by the command that `resume_newest` has changed where there is a
// checkpoint that can be used, from the beginning where there is none yet; not when two attempts
// have failed after the same step by themselves, no checkpoint can be used, or the folder is gone.
// Where nodes were lost, with as many ranks as can share batch, samples and layers. out.log tells
// what happened. `policy` says how often, and with how many ranks at least.
//
// What is returned holds the folder (RunLock) until it is destroyed, and an earlier run's is moved
// aside here and now; `run` has to outlive it. InputError: another run has the folder.
[[nodiscard]] RestartPolicy training_restarts(
    LaunchRequest& request, const PreparedRun& run, const RunOptions& options, RestartPolicy policy,
    const std::function<void(std::vector<std::string>&)>& resume_newest);

}  // namespace kolo
