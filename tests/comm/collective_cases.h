#pragma once

#include <span>
#include <vector>

#include "support/rank_case.h"

namespace kolo::testing {

// What every back end must do.
[[nodiscard]] std::span<const RankCase> collective_cases();

// Those of them that are about what reductions must keep of their operands.
[[nodiscard]] std::vector<RankCase> average_cases();

}  // namespace kolo::testing
