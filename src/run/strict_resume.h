#pragma once

#include <nlohmann/json_fwd.hpp>

#include "kolo/config/run_config.h"

namespace kolo {

struct PreparedRun;

// InputError where checkpoint.strict_resume is set, the run goes on from a checkpoint, and would
// not come to the bits that the run so far would have come to: settings that have an effect on
// results are others, or unknown; so is the number of ranks without virtual ones, or what the
// checkpoint was made with. All of it is listed.
//
// `made_with`: of this process, where it computes; a launcher, which doesn't, gives null.
void require_strict_resume(const PreparedRun& run, int ranks, const nlohmann::json& made_with);

// Whether so many ranks, instead of those that a run was started with, may go on with it.
[[nodiscard]] bool may_have_other_ranks(const RunConfig& config);

}  // namespace kolo
