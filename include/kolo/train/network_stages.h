#pragma once

#include <vector>

#include "kolo/base/network_stage.h"
#include "kolo/train/objective.h"

namespace kolo {

struct TrainingStageOptions {
  bool recompute = false;  // see kolo/nn/recompute.h
};

// A network's stages (Network::stages()) as forward_for() computes the whole: in the objective's
// precision and with its kernels; what the last one makes is in float32. Local.
[[nodiscard]] std::vector<NetworkStage> training_stages(const Objective& objective,
                                                        std::vector<NetworkStage> stages,
                                                        const TrainingStageOptions& options = {});

}  // namespace kolo
