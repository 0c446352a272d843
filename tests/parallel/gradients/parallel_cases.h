#pragma once

#include <span>

#include "support/rank_case.h"

namespace kolo::testing {

// What parallel/ must do over every back end.
[[nodiscard]] std::span<const RankCase> parallel_cases();

}  // namespace kolo::testing
