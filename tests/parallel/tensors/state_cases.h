#pragma once

#include <span>

#include "support/rank_case.h"

namespace kolo::testing {

// Broadcasts of parameters, buffers and optimizers.
[[nodiscard]] std::span<const RankCase> state_cases();

}  // namespace kolo::testing
