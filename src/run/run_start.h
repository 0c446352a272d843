#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/run/run.h"
#include "run/prepared_run.h"
#include "run/run_lock.h"

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

}  // namespace kolo
