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

// Counts what each of a network's stages computes, as summarize() does it: for cutting a chain the
// same way each time. InputError for a network without stages.
[[nodiscard]] std::vector<StageSummary> summarize_stages(Network& network,
                                                         std::span<const std::int64_t> input_shape);

}  // namespace kolo
