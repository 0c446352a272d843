#pragma once

#include <span>

#include "support/rank_case.h"

namespace kolo::testing {

// Collectives on tensors and small objects: blocking, asynchronous, for several tensors, scaled,
// uneven.
[[nodiscard]] std::span<const RankCase> tensor_cases();

}  // namespace kolo::testing
