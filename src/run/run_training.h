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

struct LoadedCheckpoint;

// Rank 0's findings before anything is written; empty on the others.
struct RunStart {
  std::optional<RunLock> lock;
  std::shared_ptr<LoadedCheckpoint> from;  // checkpoint that the run resumes from
  std::vector<std::string> warnings;
};

// Begins a run: rank 0 takes its folder's lock and, of a run that is resumed, loads the checkpoint.
// Nothing where nothing is left to do, which rank 0 says. InputError: the folder is in use, there
// is nothing to resume from, or it doesn't fit. Collective.
[[nodiscard]] std::optional<RunStart> start_run(PreparedRun& run, const RunOptions& options,
                                                const Communicator& communicator);

// A run of this model leaves the trained script in this file of its folder.
inline constexpr std::string_view torchscript_model = "torchscript";
inline constexpr std::string_view torchscript_file = "model.pt";

// What a run has besides what is prepared.
struct RunContext {
  RunOptions options;
  std::vector<Observer*> observers;
  RunOrigin origin;  // of rank 0
  ProgressOptions progress;
  std::function<bool()> stop_requested;
  std::function<std::string()> stopped_by;  // "SIGTERM"; empty: not known
  // Where there is a time to stop before: is told how long checkpoints take.
  StopTime* stop_time = nullptr;
};

[[nodiscard]] std::ostream& console_of(const RunOptions& options);

// Trains, and writes the run's folder (rank 0), from where start_run() has begun. Returns the exit
// status: 0, or 75 when stopped on request after a checkpoint. Collective.
[[nodiscard]] int run_training(PreparedRun prepared, RunStart start,
                               const Communicator& communicator, const RunContext& context);

// How often, and with how many ranks at least.
struct TrainingRestarts {
  int most = 0;       // within an hour
  int min_ranks = 0;  // where nodes were lost; 0: as many as before
};

// Restarts of kolo train's ranks: by the command that `resume_newest` has changed where there is a
// checkpoint that can be used, from the beginning where there is none yet; not when two attempts
// have failed after the same step by themselves, no checkpoint can be used, or the folder is gone.
// Where nodes were lost, with as many ranks as can share batch, samples and layers. out.log tells
// what happened.
//
// The policy holds the folder (RunLock) until it is destroyed, and an earlier run's is moved aside
// here and now; `run` has to outlive it. InputError: another run has the folder.
[[nodiscard]] RestartPolicy training_restarts(
    LaunchRequest& request, const PreparedRun& run, const RunOptions& options,
    const TrainingRestarts& restarts,
    const std::function<void(std::vector<std::string>&)>& resume_newest);

}  // namespace kolo
