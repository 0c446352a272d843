#pragma once

#include <span>

#include "support/rank_case.h"

namespace kolo::testing {

// SyncBatchNorm against a batch norm of LibTorch on the ranks' batches concatenated.
[[nodiscard]] std::span<const RankCase> sync_batch_norm_cases();

}  // namespace kolo::testing
