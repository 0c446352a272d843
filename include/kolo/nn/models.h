#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/nn/model_catalogue.h"
#include "kolo/nn/network.h"

namespace kolo {

// built_in_models().make(name, options)
[[nodiscard]] std::shared_ptr<Network> make_network(const std::string& name,
                                                    const ModelOptions& options);

// A network from a TorchScript file, as torch.jit.script(model).save(path) writes it in Python, of
// one tensor in and out: a classifier's [N, classes], or without classes numbers [N,
// output_shape...]. With options.input_shapes or output_shapes the script takes or gives as many
// tensors, and the network's own input or output is [N, values], part after part.
//
// Parameters and buffers are the script's own, so it is trained in place, and train(), eval() and
// to() reach the script. Frozen parameters stay frozen; a tensor of several names has the first. On
// the CPU, in training mode.
//
// InputError when the file is none of TorchScript, has no trainable parameter, takes another number
// of tensors, or gives other shapes for a batch of zeros than the options say. Error where forward
// fails; it names the file and what it was given.
[[nodiscard]] std::shared_ptr<Network> make_torchscript_network(const std::filesystem::path& path,
                                                                const ModelOptions& options);

// The shapes of one sample's tensors, without the batch.
struct TensorsShapes {
  std::vector<std::vector<std::int64_t>> inputs, outputs;
};

// The same of any number of tensors: forward takes tensors and gives a tensor, or a tuple or list
// of them; its other arguments must have defaults, which they keep. Without shapes nothing is
// tried.
[[nodiscard]] std::shared_ptr<TensorsNetwork> make_torchscript_tensors_network(
    const std::filesystem::path& path, const std::optional<TensorsShapes>& shapes = std::nullopt);

// Writes a network that was made from a TorchScript file as one, atomically, in evaluation mode:
// torch.jit.load in Python and make_torchscript_network read it. Costs a copy of the parameters.
// Error for another kind of network, or when the file can't be written.
void save_torchscript(const torch::nn::Module& network, const std::filesystem::path& path);

}  // namespace kolo
