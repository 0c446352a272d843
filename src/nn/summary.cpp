#include "kolo/nn/summary.h"

#include <algorithm>

#include "kolo/base/checked.h"
#include "nn/operator_recorder.h"

namespace kolo {

namespace {

// The modes of all modules, to be set again: train() sets them all alike.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) : module_(module) {
    for (const auto& each : module.modules()) modes_.push_back(each->is_training());
    module.eval();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() {
    // A module comes before those in it, which train() sets with it.
    const auto modules = module_.modules();
    for (std::size_t i = 0; i < modules.size(); ++i) {
      if (modules[i]->is_training() != modes_[i]) modules[i]->train(modes_[i]);
    }
  }

 private:
  torch::nn::Module& module_;
  std::vector<bool> modes_;
};

torch::Tensor sample_of_zeros(const Network& network, std::span<const std::int64_t> input_shape) {
  std::vector<std::int64_t> shape = {1};
  shape.insert(shape.end(), input_shape.begin(), input_shape.end());
  const auto parameters = network.parameters();
  return parameters.empty() ? torch::zeros(shape) : torch::zeros(shape, parameters[0].options());
}

}  // namespace

ModelSummary summarize(Network& network, std::span<const std::int64_t> input_shape) {
  const torch::NoGradGuard no_gradient;
  ModelSummary summary;
  {
    const EvaluationMode evaluation(network);
    const torch::Tensor input = sample_of_zeros(network, input_shape);
    OperatorRecorder recorder(network);
    (void)network.forward(input);
    summary.layers = recorder.take_layers();
  }
  for (const torch::Tensor& parameter : network.parameters()) {
    summary.parameters += parameter.numel();
    if (parameter.requires_grad()) summary.trainable_parameters += parameter.numel();
  }
  for (const torch::Tensor& buffer : network.buffers()) summary.buffer_elements += buffer.numel();
  for (const LayerSummary& layer : summary.layers)
    summary.flops = checked_add(summary.flops, layer.flops);
  return summary;
}

}  // namespace kolo
