#pragma once

#include <filesystem>
#include <memory>

#include "kolo/nn/models.h"

namespace kolo {

// A network from a TorchScript file, as torch.jit.script(model).save(path) writes it in Python: a
// classifier with one tensor as input and one, [N, classes], as output. Its parameters and buffers
// are those of the script, under the same names and in the same memory, so it is trained in place,
// and train(), eval() and to() reach the script. Parameters that the script has frozen stay frozen,
// and what it holds under several names has the first of them.
//
// InputError when the file is none of TorchScript, has no trainable parameter, or gives another
// shape for a batch of zeros of options.input_shape than options.classes. Loads to the CPU, in
// training mode. A forward that gives no tensor is an Error.
[[nodiscard]] std::shared_ptr<Network> make_torchscript_network(const std::filesystem::path& path,
                                                                const ModelOptions& options);

// Writes a network of make_torchscript_network as a TorchScript file, atomically, in evaluation
// mode: torch.jit.load in Python and make_torchscript_network read it. Costs a copy of the
// parameters. Error for another kind of network, or when the file can't be written.
void save_torchscript(const Network& network, const std::filesystem::path& path);

}  // namespace kolo
