#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kolo/base/network_stage.h"
#include "kolo/comm/communicator.h"
#include "kolo/layout/stage_cut.h"

namespace kolo {

struct StageMeasurement {
  int repeats = 3;  // the fastest counts
  // As much memory as the parameters take: themselves, gradients, an optimizer's state.
  int parameter_copies = 4;
};

// What cut_stages() is to know of a chain, measured: how long forward and backward of each stage
// take for a micro-batch, how many bytes go on to the next, and how many the parameters take. What
// backward keeps is not measured (kept_bytes is 0). Rank 0 computes while the others wait, and all
// are told, so that all cut alike; parameters, gradients, buffers and the default generator on the
// processor are as before.
//
// Times differ from call to call, so cuts may: what is to be repeated or gone on with needs the
// same bounds (PipelineStepOptions::bounds), not the same measurement.
//
// Collective; before a GradientReducer is made, whose hooks would take the gradients for a step's.
// `micro_batch` counts on rank 0 alone, as does the rest of the options. InputError for fewer than
// one repeat.
[[nodiscard]] std::vector<ChainStage> measure_stages(const Communicator& communicator,
                                                     std::span<const NetworkStage> stages,
                                                     const torch::Tensor& micro_batch,
                                                     const StageMeasurement& options = {});

}  // namespace kolo
