#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace kolo {

// Tensors that go from one stage of a network to the next: [N, ...] each. There are several where a
// later stage also takes the output of an earlier one (the skips of a U-Net).
using StagePayload = std::vector<torch::Tensor>;

// A network as a chain: each stage takes the output of the one before it, the first one the input
// alone, and the last one makes the output alone. All stages one after another are the network's
// forward, to the bit.
//
// A stage holds its own modules and nothing else of the network, so that keeping some stages keeps
// their parameters alone. It may change its input in place, and hand on what it doesn't use itself.
struct NetworkStage {
  struct NamedModule {
    std::string name;  // in the network, as named_modules() has it: "stage1.block1"
    std::shared_ptr<torch::nn::Module> module;
  };

  std::string name;  // "stem", "stage1.block1", ...
  // All parameters and buffers that the stage uses are in these.
  std::vector<NamedModule> modules;
  std::function<StagePayload(StagePayload)> forward;
};

// Some stages one after another.
[[nodiscard]] inline StagePayload run_stages(std::span<const NetworkStage> stages,
                                             StagePayload payload) {
  for (const auto& stage : stages) payload = stage.forward(std::move(payload));
  return payload;
}

}  // namespace kolo
