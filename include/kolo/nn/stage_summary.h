#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kolo/nn/network.h"

namespace kolo {

// A stage of a network on one sample.
struct StageSummary {
  std::string name;
  std::int64_t parameters = 0;  // elements
  std::int64_t flops = 0;       // as LayerSummary counts them
  std::int64_t elements = 0;    // of what goes on to the next stage
};

// What each of a network's stages computes, found as summarize() does it: how to cut a chain where
// nothing is measured, the same each time. InputError for a network without stages.
[[nodiscard]] std::vector<StageSummary> summarize_stages(Network& network,
                                                         std::span<const std::int64_t> input_shape);

}  // namespace kolo
