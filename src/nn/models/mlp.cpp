#include "kolo/nn/models.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "nn/models/model_parts.h"

namespace kolo::networks {

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
  MlpNetwork(const MlpOptions& options, const ModelOptions& shapes)
      : options_(options), inputs_(checked_product<std::int64_t>(shapes.input_shape)) {
    for (std::size_t i = 0; i < options.hidden.size(); ++i) add_hidden(i + 1, options.hidden[i]);
    add_output(shapes.output_shape.empty() ? std::vector{shapes.classes} : shapes.output_shape);
  }

 private:
  // The next layer, of flattened samples.
  torch::nn::Linear add_layer(const std::string& name, std::int64_t outputs) {
    const auto inputs = std::exchange(inputs_, outputs);
    auto options = torch::nn::LinearOptions(inputs, outputs).bias(options_.bias);
    return register_module(name, torch::nn::Linear(options));
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

  MlpOptions options_;
  std::int64_t inputs_;  // of the next layer
};

}  // namespace

struct Mlp : MlpOptions {
  void complete() { dropout = dropout.value_or(0); }
  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    return std::make_shared<MlpNetwork>(*this, shapes);
  }
};

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

namespace kolo {

std::shared_ptr<Network> make_mlp(const MlpOptions& options, const ModelOptions& shapes) {
  for (const auto width : options.hidden) {
    if (width > 0) continue;
    throw InputError(
        fmt::format("model mlp: a hidden layer's width is {}, expected 1 or more", width));
  }
  if (const auto dropout = options.dropout.value_or(0); !(dropout >= 0 && dropout < 1)) {
    throw InputError(
        fmt::format("model mlp: dropout is {}, expected a number from 0 to below 1", dropout));
  }
  const auto models = built_in_models();
  OwnSettings own = models.find("mlp").defaults;
  own.as<networks::Mlp>() = networks::Mlp{options};
  return models.make("mlp", std::move(own), shapes);
}

}  // namespace kolo
