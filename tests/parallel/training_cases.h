#pragma once

#include <span>

#include "support/rank_case.h"

namespace kolo::testing {

// Compression, optimizers over buckets and the checks of replicas and gradients, over every back
// end.
[[nodiscard]] std::span<const RankCase> power_sgd_cases();
[[nodiscard]] std::span<const RankCase> arena_optimizer_cases();
[[nodiscard]] std::span<const RankCase> left_out_cases();
[[nodiscard]] std::span<const RankCase> sharded_optimizer_cases();
[[nodiscard]] std::span<const RankCase> shared_step_cases();
[[nodiscard]] std::span<const RankCase> replica_check_cases();
[[nodiscard]] std::span<const RankCase> finite_check_cases();
[[nodiscard]] std::span<const RankCase> training_step_cases();

}  // namespace kolo::testing
