#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/nn/modules/dropout.h>

#include "kolo/base/checked.h"
#include "kolo/base/enum_names.h"
#include "kolo/base/error.h"
#include "kolo/kernels/linear.h"
#include "nn/models/building_blocks.h"

// Linear layers with an activation between them, over all values of a sample: the input [N, ...] is
// flattened, the output is [N, classes] or [N, output_shape...]. Weights and biases begin as
// torch.nn.Linear's (uniform within +-1 / sqrt(inputs)), and have torch's names: hidden1.weight,
// hidden1.bias, hidden2.weight, ..., output.weight, output.bias.
namespace kolo::networks {

// Function after each hidden layer. gelu is the exact one, x times the normal distribution's
// integral (Hendrycks and Gimpel, arXiv:1606.08415); silu is x sigmoid(x).
enum class HiddenActivation : std::uint8_t { relu, tanh, gelu, silu, sigmoid };

constexpr auto enum_names(HiddenActivation) {
  return std::to_array<EnumName<HiddenActivation>>({{HiddenActivation::relu, "relu"},
                                                    {HiddenActivation::tanh, "tanh"},
                                                    {HiddenActivation::gelu, "gelu"},
                                                    {HiddenActivation::silu, "silu"},
                                                    {HiddenActivation::silu, "swish"},
                                                    {HiddenActivation::sigmoid, "sigmoid"}});
}

struct Mlp {
  std::vector<std::int64_t> hidden = {64, 64};  // widths; none: a linear map
  HiddenActivation activation = HiddenActivation::relu;
  std::optional<double> dropout = std::nullopt;  // after each activation; unset: none
  bool bias = true;                              // of all layers

  void complete() { dropout = dropout.value_or(0); }
  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const;
};

namespace {

// In place where backward needs the result rather than the input.
torch::Tensor activated(HiddenActivation activation, torch::Tensor x) {
  switch (activation) {
    case HiddenActivation::relu:
      return x.relu_();
    case HiddenActivation::tanh:
      return x.tanh_();
    case HiddenActivation::gelu:
      return torch::gelu(x);
    case HiddenActivation::silu:
      return torch::silu(x);
    case HiddenActivation::sigmoid:
      return x.sigmoid_();
  }
  throw Error("nn: mlp: unknown activation");
}

// [N, values]
torch::Tensor flat_samples(const torch::Tensor& x, std::int64_t values) {
  if (x.dim() >= 2 && x.numel() == x.size(0) * values) return x.dim() == 2 ? x : x.flatten(1);
  throw InputError(
      fmt::format("model mlp: the input is [{}], expected [N, ...] of {} values per sample",
                  fmt::join(x.sizes().vec(), ", "), values));
}

class MlpNetwork final : public ChainNetwork {
 public:
  MlpNetwork(const Mlp& options, const ModelOptions& shapes)
      : options_(options), inputs_(checked_product<std::int64_t>(shapes.input_shape)) {
    for (std::size_t i = 0; i < options.hidden.size(); ++i) add_hidden(i + 1, options.hidden[i]);
    add_output(shapes.output_shape.empty() ? std::vector{shapes.classes} : shapes.output_shape);
  }

 private:
  // The next layer, of flattened samples.
  Linear add_layer(const std::string& name, std::int64_t outputs) {
    const auto inputs = std::exchange(inputs_, outputs);
    auto options = torch::nn::LinearOptions(inputs, outputs).bias(options_.bias);
    return register_module(name, Linear(options));
  }

  void add_hidden(std::size_t number, std::int64_t width) {
    const auto name = fmt::format("hidden{}", number);
    const auto inputs = inputs_;
    auto linear = add_layer(name, width);
    auto hidden = [linear, inputs,
                   activation = options_.activation](const torch::Tensor& x) mutable {
      return activated(activation, linear(flat_samples(x, inputs)));
    };
    const auto dropout = options_.dropout.value_or(0);
    if (dropout == 0) {
      add_stage(name, {{name, linear.ptr()}}, hidden);
      return;
    }
    const auto drop_name = name + "_drop";
    torch::nn::Dropout drop = register_module(drop_name, torch::nn::Dropout(dropout));
    add_stage(name, {{name, linear.ptr()}, {drop_name, drop.ptr()}},
              [hidden, drop](const torch::Tensor& x) mutable { return drop(hidden(x)); });
  }

  void add_output(const std::vector<std::int64_t>& shape) {
    const auto inputs = inputs_;
    auto linear = add_layer("output", checked_product<std::int64_t>(shape));
    add_stage("output", {{"output", linear.ptr()}},
              [linear, inputs, shape](const torch::Tensor& x) mutable {
                const auto flat = linear(flat_samples(x, inputs));
                return shape.size() == 1 ? flat : flat.unflatten(1, shape);
              });
  }

  Mlp options_;
  std::int64_t inputs_;  // of the next layer
};

}  // namespace

std::shared_ptr<Network> Mlp::make(const ModelOptions& shapes) const {
  return std::make_shared<MlpNetwork>(*this, shapes);
}

template <typename Field>
void visit(Field& field, Mlp& model) {
  constexpr long double most_of_a_layer = 1 << 20;
  field("hidden", model.hidden, positive.up_to(most_of_a_layer));
  field("activation", model.activation, AnyName{});
  field("dropout", model.dropout, fraction);
  field("bias", model.bias, AnyBool{});
}

ModelEntry mlp() {
  auto entry = entry_of<Mlp>("mlp",
                             "multilayer perceptron: linear layers of the widths in hidden, an "
                             "activation after each, a linear layer to classes or numbers");
  entry.output = ModelOutput::either;
  return entry;
}

}  // namespace kolo::networks
