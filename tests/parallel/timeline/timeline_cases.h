#pragma once

#include <span>

#include "support/rank_case.h"

namespace kolo::testing {

// What a timeline must hold over every back end. Rank 0's temporary folder serves all.
[[nodiscard]] std::span<const RankCase> timeline_cases();

}  // namespace kolo::testing
