#pragma once

#include <string>

#include "run/run_folder.h"

namespace kolo {

// For who goes on with a run in a folder that holds none. Default folders carry the number of a
// scheduler's job (docs/clusters.md), so another job, or nobody's, has another one: the run is in a
// folder beside it. Names those of the same configuration that hold checkpoints, the last five that
// were written to, and how to go on with one. Empty where there are none.
//
// `job`: of this process (job_number()), whose number the folder carries unless it is another's.
[[nodiscard]] std::string describe_runs_beside(const RunFolder& folder, const std::string& job);

}  // namespace kolo
