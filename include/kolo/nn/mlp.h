#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kolo/base/enum_names.h"
#include "kolo/nn/models.h"

// The multilayer perceptron, the model "mlp" of the catalogue.
namespace kolo {

// What follows each hidden layer. gelu is the exact one, x times the normal distribution's integral
// (Hendrycks and Gimpel, arXiv:1606.08415); silu is x sigmoid(x).
enum class HiddenActivation : std::uint8_t { relu, tanh, gelu, silu, sigmoid };

constexpr auto enum_names(HiddenActivation) {
  return std::to_array<EnumName<HiddenActivation>>({{HiddenActivation::relu, "relu"},
                                                    {HiddenActivation::tanh, "tanh"},
                                                    {HiddenActivation::gelu, "gelu"},
                                                    {HiddenActivation::silu, "silu"},
                                                    {HiddenActivation::silu, "swish"},
                                                    {HiddenActivation::sigmoid, "sigmoid"}});
}

struct MlpOptions {
  std::vector<std::int64_t> hidden = {64, 64};  // widths; none: a linear map
  HiddenActivation activation = HiddenActivation::relu;
  std::optional<double> dropout = std::nullopt;  // after each activation; unset: none
  bool bias = true;                              // of all layers
};

// Linear layers with an activation between them, over all values of a sample: the input [N, ...] is
// flattened, the output is [N, classes] or [N, output_shape...]. In training mode, on the CPU in
// float32, with torch.nn.Linear's random weights and biases (uniform within +-1 / sqrt(inputs))
// from torch's default generator. Parameters are hidden1.weight, hidden1.bias, hidden2.weight, ...,
// output.weight, output.bias, as torch has them: [outputs, inputs]. forward() is an
// InputError for a sample of another number of values.
//
// Of `shapes` only the shapes count. InputError for widths below 1, a dropout out of range, and
// shapes as for every model.
[[nodiscard]] std::shared_ptr<Network> make_mlp(const MlpOptions& options,
                                                const ModelOptions& shapes);

}  // namespace kolo
