#pragma once

#include <span>

#include "support/rank_case.h"

namespace kolo::testing {

// What goes into a DistributedOptimizer together: layers that communicate, hooks that compress.
[[nodiscard]] std::span<const RankCase> combined_cases();

}  // namespace kolo::testing
