#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "kolo/config/run_config.h"

namespace kolo {

struct PreparedRun;

// Refuses, where checkpoint.strict_resume is set, to go on to other bits than the run so far would
// have come to: settings with an effect on results, the number of ranks without virtual ones, or
// what the checkpoint was made with are others, or unknown. InputError lists all. `made_with`: of
// this process; null from a launcher, which doesn't compute.
void require_strict_resume(const PreparedRun& run, int ranks, const nlohmann::json& made_with);

// Whether so many ranks, instead of those that a run was started with, may go on with it.
[[nodiscard]] bool may_have_other_ranks(const RunConfig& config);

// Facts that a run's bits depend on besides its configuration, data and number of ranks.

// "amd-epyc-9654-25-17": name, family and model, as /proc/cpuinfo has them; "processor" where it
// has none.
[[nodiscard]] std::string processor_name(const std::string& cpuinfo);

// Facts of this process: the processor, the threads of a rank, and the versions of the libraries
// that compute, each by the name that people know it by.
[[nodiscard]] nlohmann::json made_with_here();

// "threads per rank 1 instead of 2, LibTorch 2.6.0 instead of 1.13.0"; empty where nothing differs
// or nothing is known of before (checkpoints of earlier versions).
[[nodiscard]] std::string describe_other_making(const nlohmann::json& before,
                                                const nlohmann::json& now);

}  // namespace kolo
