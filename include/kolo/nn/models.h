#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "kolo/nn/model_catalogue.h"
#include "kolo/nn/network.h"
#include "kolo/nn/tensors_network.h"

namespace kolo {

// built_in_models().make(name, options)
[[nodiscard]] std::shared_ptr<Network> make_network(const std::string& name,
                                                    const ModelOptions& options);

// A network from a TorchScript file, as torch.jit.script(model).save(path) writes it in Python,
// with one tensor as input, or where options.input_parts are given one for each of them, and one as
// output: a classifier's, [N, classes], or where there are no classes numbers, [N,
// output_shape...]. With options.output_parts forward gives a tuple or list of as many tensors. The
// network's own input and output are then [N, values], part after part.
// kolo/nn/tensors_network.h has those that take and give tensors of any shapes.
// Its parameters and buffers
// are those of the script, under the same names and in the same memory, so it is trained in place,
// and train(), eval() and to() reach the script. Parameters that the script has frozen stay frozen,
// and what it holds under several names has the first of them.
//
// InputError when the file is none of TorchScript, has no trainable parameter, takes another number
// of tensors, or gives other shapes for a batch of zeros than the options say. Loads to the CPU, in
// training mode. A forward that fails or gives no tensor is an Error, which names the file and what
// it was given.
[[nodiscard]] std::shared_ptr<Network> make_torchscript_network(const std::filesystem::path& path,
                                                                const ModelOptions& options);

// Writes a network that was made from a TorchScript file as one, atomically, in evaluation mode:
// torch.jit.load in Python and make_torchscript_network read it. Costs a copy of the parameters.
// Error for another kind of network, or when the file can't be written.
void save_torchscript(const torch::nn::Module& network, const std::filesystem::path& path);

}  // namespace kolo
