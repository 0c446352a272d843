#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include <torch/types.h>

#include "kolo/nn/loss.h"

// Losses of networks of any number of outputs (kolo/nn/tensors_network.h).
namespace kolo {

// The loss of a batch, a scalar to call backward() on, from the outputs, their targets and whatever
// else it needs: weights, areas, masks.
using TensorsLoss = std::function<torch::Tensor(std::span<const torch::Tensor> outputs,
                                                std::span<const torch::Tensor> targets,
                                                std::span<const torch::Tensor> extras)>;

// The sum of a catalogue's loss over pairs of an output and its target. InputError where there are
// not as many targets as outputs, or none, and for extras, which such a loss doesn't take.
[[nodiscard]] TensorsLoss as_tensors_loss(LossFunction loss);

// A loss from a TorchScript file, as torch.jit.script(loss).save(path) writes it in Python: a
// module whose forward takes the outputs, then the targets, then the extras, each a tensor, and
// gives a floating scalar. It is in evaluation mode, its parameters are not trained, and it lies on
// the CPU. Copies share the module; one thread at a time may use it.
//
// InputError when the file is none of TorchScript; when called, InputError for another number of
// tensors than forward takes and for a result that is no floating scalar or doesn't depend on
// outputs that are to be trained, Error where the script fails. All name the file and what was
// passed.
[[nodiscard]] TensorsLoss make_torchscript_loss(const std::filesystem::path& path);

}  // namespace kolo
