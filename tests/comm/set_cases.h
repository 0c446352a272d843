#pragma once

#include <vector>

#include "support/rank_case.h"

namespace kolo::testing {

// Uneven all-gathers and all-to-alls, over every back end.
[[nodiscard]] std::vector<RankCase> exchange_cases();

// Sets of ranks, shared memory, tasks and listeners, over every back end.
[[nodiscard]] std::vector<RankCase> set_cases();

// Both.
[[nodiscard]] std::vector<RankCase> own_order_cases();
[[nodiscard]] std::vector<RankCase> exchange_and_set_cases();

}  // namespace kolo::testing
