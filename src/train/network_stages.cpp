#include "kolo/train/network_stages.h"

#include <utility>

#include "kolo/kernels/device_norm.h"
#include "kolo/nn/recompute.h"

namespace kolo {

namespace {

torch::DeviceType device_type_of(const StagePayload& payload) {
  for (const auto& tensor : payload)
    if (tensor.defined()) return tensor.device().type();
  return torch::kCPU;
}

}  // namespace

// Outside of what is recomputed, which computes in backward as it did under these guards.
std::vector<NetworkStage> training_stages(const Objective& objective,
                                          std::vector<NetworkStage> stages,
                                          const TrainingStageOptions& options) {
  if (options.recompute) stages = recomputed(std::move(stages));
  for (auto& stage : stages) {
    const bool is_last = &stage == &stages.back();
    stage.forward = [forward = std::move(stage.forward), is_last, precision = objective.precision,
                     device_norm = objective.device_norm](StagePayload payload) {
      const DeviceNorm norms(device_norm);
      if (precision == Precision::fp32) return forward(std::move(payload));
      {
        const AutocastGuard guard(precision, device_type_of(payload));
        payload = forward(std::move(payload));
      }
      if (is_last)
        for (auto& output : payload) output = output.to(torch::kFloat);
      return payload;
    };
  }
  return stages;
}

}  // namespace kolo
