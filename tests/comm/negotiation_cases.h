#pragma once

#include <vector>

#include "support/rank_case.h"

namespace kolo::testing {

// What a checked communicator must do over every back end: name calls that differ, let ranks join,
// and all that a plain one does. They are given a plain communicator.
[[nodiscard]] std::vector<RankCase> negotiation_cases();

[[nodiscard]] std::vector<RankCase> mismatch_cases();
[[nodiscard]] std::vector<RankCase> join_cases();

}  // namespace kolo::testing
