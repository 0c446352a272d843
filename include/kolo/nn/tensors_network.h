#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/nn/network.h"

// Networks of any number of inputs and outputs.
namespace kolo {

// A torch module with parameters, buffers and modes that takes and gives lists of tensors. As with
// every torch module, one thread at a time may use it.
class TensorsNetwork : public torch::nn::Module {
 public:
  // Records for backward unless gradients are off. InputError for another number of inputs than
  // the network takes.
  [[nodiscard]] virtual std::vector<torch::Tensor> forward(
      std::span<const torch::Tensor> inputs) = 0;
};

// A network as one of one input and one output. Its parameters, buffers and modules are the
// network's own, under the same names, so either may be trained, saved and loaded; modules that are
// replaced have to be before.
[[nodiscard]] std::shared_ptr<TensorsNetwork> as_tensors_network(std::shared_ptr<Network> network);

// The shapes of one sample's tensors, without the batch.
struct TensorsShapes {
  std::vector<std::vector<std::int64_t>> inputs, outputs;
};

// A network from a TorchScript file, as torch.jit.script(model).save(path) writes it in Python,
// whose forward takes tensors and gives a tensor, or a tuple or list of tensors. Of its arguments
// those that are no tensors must have defaults, which they keep. Parameters and buffers are those
// of the script, as with make_torchscript_network (kolo/nn/models.h). Loads to the CPU, in training
// mode.
//
// InputError when the file is none of TorchScript, has no trainable parameter, or, where shapes are
// given, doesn't work on two samples of float32 zeros of these or gives others. forward() is an
// Error where the script fails; it names the file and what it was given.
[[nodiscard]] std::shared_ptr<TensorsNetwork> make_torchscript_tensors_network(
    const std::filesystem::path& path, const std::optional<TensorsShapes>& shapes = std::nullopt);

}  // namespace kolo
