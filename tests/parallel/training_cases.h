#pragma once

#include <span>

#include "support/rank_case.h"

namespace kolo::testing {

// Compression, sharded optimizers and the checks of replicas and gradients, over every back end.
[[nodiscard]] std::span<const RankCase> power_sgd_cases();
[[nodiscard]] std::span<const RankCase> sharded_optimizer_cases();

}  // namespace kolo::testing
