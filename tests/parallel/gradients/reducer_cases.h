#pragma once

#include <span>

#include "support/rank_case.h"

namespace kolo::testing {

// GradientReducer's options, hooks and sparse gradients, and DistributedOptimizer, over every back
// end; each is compared with the average of the ranks' gradients by plain autograd.
[[nodiscard]] std::span<const RankCase> reducer_cases();
[[nodiscard]] std::span<const RankCase> reducer_order_cases();
[[nodiscard]] std::span<const RankCase> passes_cases();
[[nodiscard]] std::span<const RankCase> tied_weight_cases();
[[nodiscard]] std::span<const RankCase> unused_parameter_cases();
[[nodiscard]] std::span<const RankCase> own_order_cases();
[[nodiscard]] std::span<const RankCase> claimed_gradient_cases();
[[nodiscard]] std::span<const RankCase> distributed_optimizer_cases();
[[nodiscard]] std::span<const RankCase> torch_optimizer_cases();

// Where ranks have joined, and averages near the largest number.
[[nodiscard]] std::span<const RankCase> joined_rank_cases();

}  // namespace kolo::testing
