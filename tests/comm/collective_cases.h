#pragma once

#include <span>

#include "support/rank_case.h"

namespace kolo::testing {

// What every back end must do.
[[nodiscard]] std::span<const RankCase> collective_cases();

}  // namespace kolo::testing
