#pragma once

#include <span>

#include "support/rank_case.h"

namespace kolo::testing {

// Gradients through collectives against those of the same computation by one rank.
[[nodiscard]] std::span<const RankCase> differentiable_cases();

}  // namespace kolo::testing
