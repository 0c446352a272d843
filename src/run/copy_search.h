#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "run/resume.h"
#include "run/run_folder.h"

// Copies of a run's state on its nodes' own storage (run_copies.h), which a run may go on from.
namespace kolo {

// What tells a run's copies from all others: made of the real path of its folder and of its first
// start. Empty: the run has not been started, or by a version that made no copies.
[[nodiscard]] std::string copy_key(const RunFolder& folder);

// Under which a copy's state names the start that made it (RunBegin::id).
inline constexpr const char* copy_start_key = "copy_of_start";

// Whether a run that goes on looks for copies: from the newest state that there is, whichever that
// is. `resume`: as RunOptions has it.
[[nodiscard]] bool looks_for_copies(const CheckpointConfig& config,
                                    const std::optional<std::string>& resume);

// Set for ranks that kolo starts again where there is no checkpoint: if no node has a copy of the
// state either, they start from the beginning.
inline constexpr const char* may_begin_variable = "KOLO_MAY_BEGIN";

struct FoundCopy {
  CheckpointStore::Loaded loaded;  // verified
  std::string host;                // that has it
};

// The newest copy on any node that belongs to what the run's folder has recorded, and is newer than
// its checkpoints: rank 0 gets it, from the lowest rank that has it. Copies count
//
//   of a start, up to the step from which the starts after it went on;
//   unless a validation before them was the best whose checkpoint has not come to be.
//
// `newest`: the checkpoint that the run would go on from, none if there is none. `warn` is told of
// damaged copies, which are passed over. `folder`, `newest` and `warn` are rank 0's. Collective;
// the first rank of each node reads the headers of a copy, one rank reads it whole.
[[nodiscard]] std::optional<FoundCopy> find_copy(
    const Communicator& communicator, const CheckpointConfig& config, const RunFolder& folder,
    const std::optional<ResumePoint>& newest, const std::function<void(const std::string&)>& warn);

}  // namespace kolo
