#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "kernels/fused.h"
#include "kolo/base/checked.h"
#include "kolo/base/graph_node.h"
#include "kolo/nn/network.h"

namespace kolo {

namespace {

using Inputs = std::span<const c10::IValue>;

constexpr std::array<std::string_view, 27> moving_data = {
    "alpha_dropout", "cat",       "channel_shuffle",
    "chunk",         "clone",     "contiguous",
    "dropout",       "expand",    "feature_dropout",
    "flatten",       "narrow",    "pad",
    "permute",       "reshape",   "select",
    "slice",         "split",     "squeeze",
    "stack",         "t",         "to",
    "transpose",     "unflatten", "unsqueeze",
    "view",          "detach",    "constant_pad_nd"};

const torch::Tensor& tensor(Inputs inputs, std::size_t index) {
  return inputs[index].toTensor();
}

bool has_tensors(Inputs inputs, std::size_t count) {
  return inputs.size() >= count && std::all_of(inputs.begin(), inputs.begin() + count,
                                               [](const auto& each) { return each.isTensor(); });
}

// Input, weight, bias, stride, padding, dilation, transposed.
std::int64_t convolution_flops(Inputs inputs, const torch::Tensor& output, bool transposed) {
  const torch::Tensor& weight = tensor(inputs, 1);
  const std::int64_t each = weight.numel() / weight.size(0);
  return checked_multiply<std::int64_t>(
      2, checked_multiply(each, transposed ? tensor(inputs, 0).numel() : output.numel()));
}

std::int64_t multiplication_flops(const torch::Tensor& first, const torch::Tensor& output) {
  return checked_multiply<std::int64_t>(2, checked_multiply(first.size(-1), output.numel()));
}

// Input, kernel: a length for each dimension or one for all.
std::int64_t pooling_flops(std::string_view name, Inputs inputs, const torch::Tensor& output) {
  const std::vector<std::int64_t> kernel = inputs[1].toIntVector();
  const auto dimensions = static_cast<std::size_t>(name[name.find("_pool") + 5] - '0');
  std::int64_t values = checked_product<std::int64_t>(kernel);
  for (std::size_t length = kernel.size(); length < dimensions; ++length)
    values = checked_multiply(values, kernel.front());
  return checked_multiply(values, output.numel());
}

// The floating-point operations of one call of an ATen operator, counted as LayerSummary::flops
// says. The name is without "aten::" and the underscore of those in place.
std::int64_t operator_flops(std::string_view name, Inputs inputs, const torch::Tensor& output) {
  if (std::find(moving_data.begin(), moving_data.end(), name) != moving_data.end()) return 0;
  if (has_tensors(inputs, 2)) {
    if (name.starts_with("conv_transpose")) return convolution_flops(inputs, output, true);
    if (name == "convolution" || name == "_convolution")
      return convolution_flops(inputs, output, inputs[6].toBool());
    if (name.starts_with("conv")) return convolution_flops(inputs, output, false);
    if (name == "linear" || name == "matmul" || name == "mm" || name == "bmm")
      return multiplication_flops(tensor(inputs, 0), output);
    if (name == "addmm" || name == "baddbmm")
      return multiplication_flops(tensor(inputs, 1), output);
  }
  if (name.find("_norm") != std::string_view::npos) return 2 * output.numel();
  if (name.starts_with("adaptive_") || name == "mean" || name == "sum" || name == "amax")
    return tensor(inputs, 0).numel();
  if (name.starts_with("max_pool") || name.starts_with("avg_pool"))
    return pooling_flops(name, inputs, output);
  return output.numel();
}

// The inputs have to be kept until the operator's end: LibTorch doesn't.
struct OperatorCall : at::ObserverContext {
  std::vector<c10::IValue> inputs;
};

bool is_operator(const at::RecordFunction& function) {
  return function.operator_name().has_value();
}

// "aten::relu_" is "relu".
std::string kind_of(const at::RecordFunction& function) {
  std::string name = function.name();
  if (name.starts_with("aten::")) name.erase(0, 6);
  if (name.size() > 1 && name.ends_with('_')) name.pop_back();
  return name;
}

torch::Tensor first_tensor(const std::vector<c10::IValue>& values) {
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) return value.toTensor();
    if (value.isTensorList() && !value.toTensorVector().empty()) return value.toTensorVector()[0];
  }
  return {};
}

// Writes down the operators that this thread calls while it lives, but not those that operators
// call. Those that take no tensor, or only look at parameters, are left out. One at a time on a
// thread.
class OperatorWatcher {
 public:
  // Operators are named after the parameters and buffers of the module that they take.
  explicit OperatorWatcher(const torch::nn::Module& module) {
    for (const auto& item : module.named_parameters())
      remember(item.key(), item.value(), item.value().numel());
    for (const auto& item : module.named_buffers()) remember(item.key(), item.value(), 0);
    active = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(operator_begins, operator_ends)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  OperatorWatcher(const OperatorWatcher&) = delete;
  OperatorWatcher& operator=(const OperatorWatcher&) = delete;
  ~OperatorWatcher() {
    at::removeCallback(handle_);
    active = nullptr;
  }

  [[nodiscard]] std::vector<LayerSummary> take_layers() { return std::move(layers_); }

 private:
  struct KnownTensor {
    std::string module;
    std::int64_t parameters = 0;  // not yet counted
  };

  static std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function) {
    if (!is_operator(function) || active->depth_++ > 0) return nullptr;
    auto call = std::make_unique<OperatorCall>();
    call->inputs.assign(function.inputs().begin(), function.inputs().end());
    return call;
  }
  static void operator_ends(const at::RecordFunction& function, at::ObserverContext* context) {
    if (!is_operator(function) || --active->depth_ > 0) return;
    active->add(function, static_cast<OperatorCall*>(context)->inputs);
  }

  void remember(const std::string& name, const torch::Tensor& tensor, std::int64_t parameters) {
    if (tensor.numel() == 0) return;
    const auto dot = name.rfind('.');
    const auto module = dot == std::string::npos ? "" : name.substr(0, dot);
    known_.try_emplace(tensor.data_ptr(), KnownTensor{module, parameters});
  }
  void add(const at::RecordFunction& function, const std::vector<c10::IValue>& inputs);

  // LibTorch takes plain functions to call back, so this is how they find the watcher.
  static thread_local OperatorWatcher* active;

  std::unordered_map<const void*, KnownTensor> known_;  // by the address of the values
  std::vector<LayerSummary> layers_;
  std::int64_t depth_ = 0;
  at::CallbackHandle handle_ = 0;
};

thread_local OperatorWatcher* OperatorWatcher::active = nullptr;

void OperatorWatcher::add(const at::RecordFunction& function,
                          const std::vector<c10::IValue>& inputs) {
  const torch::Tensor output = first_tensor(function.outputs());
  if (!output.defined() || !first_tensor(inputs).defined()) return;
  if (output.numel() > 0 && known_.contains(output.data_ptr())) return;  // a parameter's view
  LayerSummary layer;
  layer.kind = kind_of(function);
  for (const c10::IValue& input : inputs) {
    if (!input.isTensor() || !input.toTensor().defined() || input.toTensor().numel() == 0) continue;
    const auto known = known_.find(input.toTensor().data_ptr());
    if (known == known_.end()) {
      layer.input_elements += input.toTensor().numel();
      continue;
    }
    if (layer.name.empty()) layer.name = known->second.module;
    layer.parameters += std::exchange(known->second.parameters, 0);
  }
  layer.output_shape = output.sizes().vec();
  if (!layer.output_shape.empty()) layer.output_shape.erase(layer.output_shape.begin());
  layer.flops = operator_flops(layer.kind, inputs, output);
  // A linear layer calls one or the other, depending on its input and on LibTorch.
  if (!layer.name.empty() && (layer.kind == "addmm" || layer.kind == "matmul"))
    layer.kind = "linear";
  layers_.push_back(std::move(layer));
}

// Each once, also those that a module has under several names (tied weights).
std::vector<torch::Tensor> distinct_parameters(const torch::nn::Module& module) {
  std::vector<torch::Tensor> distinct;
  std::unordered_set<const c10::TensorImpl*> known;
  for (const torch::Tensor& parameter : module.parameters()) {
    if (known.insert(parameter.unsafeGetTensorImpl()).second) distinct.push_back(parameter);
  }
  return distinct;
}

// While it lives the network is in evaluation mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(Network& network)
      : network_(network), was_training_(network.is_training()) {
    network.eval();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() { network_.train(was_training_); }

 private:
  Network& network_;
  bool was_training_;
};

torch::Tensor sample_of_zeros(const Network& network, std::span<const std::int64_t> input_shape) {
  std::vector<std::int64_t> shape = {1};
  shape.insert(shape.end(), input_shape.begin(), input_shape.end());
  const auto parameters = network.parameters();
  return parameters.empty() ? torch::zeros(shape) : torch::zeros(shape, parameters[0].options());
}

// All nodes that backward would reach.
std::unordered_set<const torch::autograd::Node*> nodes_behind(const torch::Tensor& output) {
  std::unordered_set<const torch::autograd::Node*> met;
  std::vector<const torch::autograd::Node*> next;
  if (output.requires_grad())
    next.push_back(torch::autograd::impl::gradient_edge(output).function.get());
  while (!next.empty()) {
    const auto* const node = next.back();
    next.pop_back();
    if (node == nullptr || !met.insert(node).second) continue;
    for (const auto& edge : node->next_edges()) next.push_back(edge.function.get());
  }
  return met;
}

// "1 234 567", as all numbers of kolo's
std::string grouped(std::int64_t number) {
  std::string text;
  for (; number >= 1000; number /= 1000) text = fmt::format(" {:03}{}", number % 1000, text);
  return fmt::format("{}{}", number, text);
}

using Row = std::array<std::string, 5>;

Row row_of(const LayerSummary& layer) {
  return {layer.name, layer.kind, fmt::format("{}", fmt::join(layer.output_shape, " x ")),
          layer.parameters == 0 ? "" : grouped(layer.parameters),
          layer.flops == 0 ? "" : grouped(layer.flops)};
}

}  // namespace

ModelSummary summarize(Network& network, std::span<const std::int64_t> input_shape) {
  const torch::NoGradGuard no_gradient;
  ModelSummary summary;
  {
    const EvaluationMode evaluation(network);
    const PlainKernels plain;
    const torch::Tensor input = sample_of_zeros(network, input_shape);
    OperatorWatcher recorder(network);
    (void)network.forward(input);
    summary.layers = recorder.take_layers();
  }
  for (const torch::Tensor& parameter : distinct_parameters(network)) {
    summary.parameters += parameter.numel();
    if (parameter.requires_grad()) summary.trainable_parameters += parameter.numel();
  }
  for (const torch::Tensor& buffer : network.buffers()) summary.buffer_elements += buffer.numel();
  for (const LayerSummary& layer : summary.layers)
    summary.flops = checked_add(summary.flops, layer.flops);
  return summary;
}

std::vector<StageSummary> summarize_stages(Network& network,
                                           std::span<const std::int64_t> input_shape) {
  const torch::NoGradGuard no_gradient;
  const EvaluationMode evaluation(network);
  const PlainKernels plain;
  std::vector<StageSummary> summaries;
  StagePayload payload{sample_of_zeros(network, input_shape)};
  for (const auto& stage : network.stages()) {
    StageSummary summary{stage.name};
    for (const auto& part : stage.modules) {
      for (const auto& parameter : distinct_parameters(*part.module))
        summary.parameters += parameter.numel();
    }
    OperatorWatcher recorder(network);
    payload = stage.forward(std::move(payload));
    for (const auto& layer : recorder.take_layers())
      summary.flops = checked_add(summary.flops, layer.flops);
    for (const auto& tensor : payload) summary.elements += tensor.numel();
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

std::vector<std::string> find_unused_parameters(Network& network,
                                                std::span<const std::int64_t> input_shape) {
  const torch::AutoGradMode with_gradients(true);
  const EvaluationMode evaluation(network);  // one sample is too few for a batch norm in training
  const auto parameters = network.named_parameters();
  std::vector<GraphNode> accumulators;  // kept, as the graph alone would own them otherwise
  for (const auto& item : parameters) {
    accumulators.push_back(item.value().requires_grad()
                               ? torch::autograd::impl::grad_accumulator(item.value())
                               : GraphNode());
  }
  const auto used = nodes_behind(network.forward(sample_of_zeros(network, input_shape)));
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < accumulators.size(); ++i)
    if (accumulators[i] && used.count(accumulators[i].get()) == 0)
      unused.push_back(parameters[i].key());
  return unused;
}

std::string to_text(const ModelSummary& summary) {
  std::vector<Row> rows = {{"layer", "operation", "output", "parameters", "FLOPs per sample"}};
  for (const LayerSummary& layer : summary.layers) rows.push_back(row_of(layer));
  rows.push_back({"total", "", "", grouped(summary.parameters), grouped(summary.flops)});

  std::array<std::size_t, 5> widths{};
  for (const Row& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  }
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}\n", row[0], widths[0], row[1],
                        widths[1], row[2], widths[2], row[3], widths[3], row[4], widths[4]);
  }
  text += fmt::format("{} trainable parameters, {} frozen, {} values in buffers\n",
                      grouped(summary.trainable_parameters),
                      grouped(summary.parameters - summary.trainable_parameters),
                      grouped(summary.buffer_elements));
  return text;
}

}  // namespace kolo
