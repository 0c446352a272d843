#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/comm/communicator.h"
#include "kolo/run/run.h"
#include "run/prepared_run.h"
#include "run/run_lock.h"

namespace kolo {

// What there is before anything is written: rank 0 has it, the others know what it comes to.
struct RunStart {
  std::optional<RunLock> lock;
  std::optional<CheckpointStore::Loaded> from;  // where the run goes on
  std::vector<std::string> warnings;
  bool goes_on = false;       // from there: on all ranks
  bool is_from_copy = false;  // on a node's own storage: on all ranks
};

// For a run that goes on: where from. Rank 0 gets it, from its folder's checkpoints or a node's
// copy that is newer; where a run that kolo has started again has neither, it begins anew.
// InputError: there is nothing to go on from, or it doesn't fit. Collective, where there may be
// copies.
void find_start(RunStart& start, PreparedRun& run, const RunOptions& options,
                const Communicator& communicator);

}  // namespace kolo
