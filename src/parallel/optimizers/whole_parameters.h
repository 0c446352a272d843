#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/bucket_plan.h"

// For optimizers that take whole parameters (FlatOptimizer::is_layerwise).
namespace kolo::parallel {

// Whether it is the first or the last one that is no vector.
[[nodiscard]] bool is_outer(const BucketPlan& plan, std::size_t parameter);

// By parameter: which of several ranks makes its steps. The costliest are dealt first, each to the
// rank that has least to do. A pure function.
[[nodiscard]] std::vector<int> deal_parameters(const BucketPlan& plan,
                                               const FlatOptimizer& optimizer, int ranks);

// Elements of a parameter's own state (FlatOptimizer::own_state).
[[nodiscard]] std::int64_t own_state_count(const FlatOptimizer& optimizer, const BucketPlan& plan,
                                           std::size_t parameter);

// Views of it, each by its name, in its shape.
[[nodiscard]] std::vector<ArenaOptimizer::NamedState> named_own_state(
    const FlatOptimizer& optimizer, const BucketPlan& plan, std::size_t parameter,
    const torch::Tensor& flat);

}  // namespace kolo::parallel
