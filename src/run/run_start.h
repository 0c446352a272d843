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

// Begins a run: rank 0 takes its folder's lock, which may take a while, and of a run that goes on
// finds where from, in its folder's checkpoints or a node's copy that is newer; where a run that
// kolo has started again has neither, it begins anew. Nothing where nothing is left to do, which
// rank 0 says. InputError: the folder is in use, there is nothing to go on from, or it doesn't fit.
// Collective.
[[nodiscard]] std::optional<RunStart> start_run(PreparedRun& run, const RunOptions& options,
                                                const Communicator& communicator);

}  // namespace kolo
