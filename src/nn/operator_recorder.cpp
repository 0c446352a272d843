#include "nn/operator_recorder.h"

#include "nn/operator_flops.h"

namespace kolo {

namespace {

// LibTorch takes plain functions to call back, so this is how they find the recorder.
thread_local OperatorRecorder* active_recorder = nullptr;

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

}  // namespace

OperatorRecorder::OperatorRecorder(const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters())
    remember(item.key(), item.value(), item.value().numel());
  for (const auto& item : module.named_buffers()) remember(item.key(), item.value(), 0);
  active_recorder = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(operator_begins, operator_ends)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

OperatorRecorder::~OperatorRecorder() {
  at::removeCallback(handle_);
  active_recorder = nullptr;
}

void OperatorRecorder::remember(const std::string& name, const torch::Tensor& tensor,
                                std::int64_t parameters) {
  if (tensor.numel() == 0) return;
  const auto dot = name.rfind('.');
  known_.try_emplace(tensor.data_ptr(),
                     KnownTensor{dot == std::string::npos ? "" : name.substr(0, dot), parameters});
}

std::unique_ptr<at::ObserverContext> OperatorRecorder::operator_begins(
    const at::RecordFunction& function) {
  if (!is_operator(function) || active_recorder->depth_++ > 0) return nullptr;
  auto call = std::make_unique<OperatorCall>();
  call->inputs.assign(function.inputs().begin(), function.inputs().end());
  return call;
}

void OperatorRecorder::operator_ends(const at::RecordFunction& function,
                                     at::ObserverContext* context) {
  if (!is_operator(function) || --active_recorder->depth_ > 0) return;
  active_recorder->add(function, static_cast<OperatorCall*>(context)->inputs);
}

void OperatorRecorder::add(const at::RecordFunction& function,
                           const std::vector<c10::IValue>& inputs) {
  const torch::Tensor output = first_tensor(function.outputs());
  if (!output.defined() || !first_tensor(inputs).defined()) return;
  if (output.numel() > 0 && known_.contains(output.data_ptr())) return;  // a parameter's view
  LayerSummary layer;
  layer.kind = kind_of(function);
  for (const c10::IValue& input : inputs) {
    if (!input.isTensor() || !input.toTensor().defined() || input.toTensor().numel() == 0) continue;
    const auto known = known_.find(input.toTensor().data_ptr());
    if (known == known_.end()) continue;
    if (layer.name.empty()) layer.name = known->second.module;
    layer.parameters += std::exchange(known->second.parameters, 0);
  }
  layer.output_shape = output.sizes().vec();
  if (!layer.output_shape.empty()) layer.output_shape.erase(layer.output_shape.begin());
  layer.flops = operator_flops(layer.kind, inputs, output);
  // What a linear layer calls depends on its input and on LibTorch.
  if (!layer.name.empty() && (layer.kind == "addmm" || layer.kind == "matmul"))
    layer.kind = "linear";
  layers_.push_back(std::move(layer));
}

}  // namespace kolo
