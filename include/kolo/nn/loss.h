#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "kolo/settings/choice.h"

namespace at {
class Tensor;
}

namespace kolo {

// The mean loss over a batch, a scalar to call backward() on, from a network's outputs and the
// targets; not a number for an empty batch. InputError for outputs or targets of another shape than
// it takes.
using LossFunction =
    std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)>;

// Outputs are logits [N, classes]; targets the classes' indices [N], int64, or the classes'
// probabilities [N, classes], floating. The mean of -sum(target log(softmax(logits))).
//
// label_smoothing, from 0 to below 1 or InputError: the share of a target that goes to all classes
// alike (Szegedy et al., arXiv:1512.00567), as Keras has it.
[[nodiscard]] LossFunction make_cross_entropy(double label_smoothing = 0);

// Outputs are one logit a sample, [N, 1] or [N]; targets 0, 1 or a probability between them,
// integer or floating, [N] or [N, 1]. The mean of -target log(p) - (1 - target) log(1 - p),
// p = sigmoid(logit). label_smoothing as above.
[[nodiscard]] LossFunction make_binary_cross_entropy(double label_smoothing = 0);

// Outputs and targets of one shape, floating. The mean of |outputs - targets|. With a lambda_rho
// above 0, which takes fields [N, channels, lengths...] whose first channel is ln(rho) / 14: plus
// lambda_rho times the mean of |exp(14 outputs[:, 0]) - exp(14 targets[:, 0])|, the error in the
// density itself, as NERSC's tutorial for the cosmology U-Net has it. InputError below 0.
[[nodiscard]] LossFunction make_l1(double lambda_rho = 0);

// Outputs and targets of one shape, floating: an [N] is not an [N, 1]. The mean of
// (outputs - targets)^2, in the outputs' type.
[[nodiscard]] LossFunction make_mse();

// A loss under its name in configurations, with its keys there.
struct LossEntry : ChoiceEntry {
  bool has_classes = true;  // a classifier's, whose outputs can be right or wrong
  bool is_binary = false;   // of one output, which tells two classes apart
  std::function<LossFunction(const OwnSettings&)> make = {};
  // The loss of validations, without label smoothing, so that runs compare.
  std::function<LossFunction(const OwnSettings&)> make_for_validation = {};
};

// The losses of src/nn/losses.
[[nodiscard]] const std::vector<LossEntry>& built_in_losses();

// By name or alias: "mse" is also called "mean_squared_error". InputError for any other.
[[nodiscard]] const LossEntry& loss_entry(std::string_view name);

// The loss of that name with its defaults.
[[nodiscard]] LossFunction make_loss(std::string_view name);

// Loss of a network of any number of outputs, as inside simulations: a scalar to call backward()
// on, from the outputs, their targets and whatever else it needs (weights, areas, masks).
// as_tensors_loss() makes one of each LossFunction, which is the usual case of one output.
using TensorsLoss = std::function<at::Tensor(std::span<const at::Tensor> outputs,
                                             std::span<const at::Tensor> targets,
                                             std::span<const at::Tensor> extras)>;

// The sum of a catalogue's loss over pairs of an output and its target. InputError where there are
// not as many targets as outputs, or none, and for extras, which such a loss doesn't take.
[[nodiscard]] TensorsLoss as_tensors_loss(LossFunction loss);

// A loss from a TorchScript file, as torch.jit.script(loss).save(path) writes it in Python: a
// module whose forward takes the outputs, then the targets, then the extras, each a tensor, and
// gives a floating scalar. It is in evaluation mode, not trained, and on the CPU. Copies share the
// module; one thread at a time may use it.
//
// InputError when the file is none of TorchScript; when called, InputError for another number of
// tensors and for a result that is no floating scalar or doesn't depend on outputs to be trained,
// Error where the script fails. All name the file and what was passed.
[[nodiscard]] TensorsLoss make_torchscript_loss(const std::filesystem::path& path);

}  // namespace kolo
