#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/base/checked.h"
#include "kolo/nn/network.h"
#include "kolo/nn/stage_summary.h"
#include "kernels/fused.h"
#include "nn/operator_recorder.h"

namespace kolo {

namespace {

// The modes of all modules, to be set again: train() sets them all alike.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& network)
      : network_(network),
        training_(network.is_training()),
        parts_(network.modules(/*include_self=*/false)) {
    for (const auto& part : parts_) modes_.push_back(part->is_training());
    network.eval();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() {
    // A module comes before those in it, which train() sets with it.
    network_.train(training_);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i]->is_training() != modes_[i]) parts_[i]->train(modes_[i]);
    }
  }

 private:
  torch::nn::Module& network_;
  bool training_;
  std::vector<std::shared_ptr<torch::nn::Module>> parts_;
  std::vector<bool> modes_;
};

torch::Tensor sample_of_zeros(const Network& network, std::span<const std::int64_t> input_shape) {
  std::vector<std::int64_t> shape = {1};
  shape.insert(shape.end(), input_shape.begin(), input_shape.end());
  const auto parameters = network.parameters();
  return parameters.empty() ? torch::zeros(shape) : torch::zeros(shape, parameters[0].options());
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
    OperatorRecorder recorder(network);
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
    OperatorRecorder recorder(network);
    payload = stage.forward(std::move(payload));
    for (const auto& layer : recorder.take_layers())
      summary.flops = checked_add(summary.flops, layer.flops);
    for (const auto& tensor : payload) summary.elements += tensor.numel();
    summaries.push_back(std::move(summary));
  }
  return summaries;
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
