#include "kolo/train/objective.h"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/nn/metrics.h"

namespace kolo {

torch::Tensor metric_sums(const Objective& objective, const torch::Tensor& loss,
                          const torch::Tensor& outputs, const torch::Tensor& targets) {
  const torch::NoGradGuard no_gradient;
  const auto& part = objective.part;
  const auto batch = static_cast<double>(targets.size(0));
  const auto samples = part.rank == 0 ? batch : 0;
  const auto of_loss = batch * part.loss_factor / part.ranks;
  const auto options = torch::TensorOptions(torch::kDouble).device(loss.device());
  const auto number = [&](double value) { return torch::full({}, value, options); };
  const auto counted = [&](const torch::Tensor& count) {
    return part.rank == 0 ? count.to(torch::kDouble) : number(0);
  };
  auto correct = number(std::numeric_limits<double>::quiet_NaN()), in_top = number(0);
  if (objective.counts_correct) {
    correct = counted(correct_samples(outputs, targets));
    if (objective.top > 0) in_top = counted(samples_in_top(outputs, targets, objective.top));
  }
  return torch::stack({loss.detach().to(torch::kDouble).mul(of_loss).reshape({}), correct, in_top,
                       number(samples)});
}

MetricSums metrics_of(std::span<const double> numbers) {
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

void require_precision(Precision precision) {
  if (precision == Precision::fp32) return;
  try {
    const auto input = torch::ones({1, 1, 4, 4, 4}, torch::requires_grad());
    const auto weight = torch::ones({1, 1, 4, 4, 4}, torch::requires_grad());
    torch::Tensor down, up;
    {
      const AutocastGuard guard(precision);
      down = torch::conv3d(input, weight, {}, 2, 1);
      up = torch::conv_transpose3d(down, weight, {}, 2, 1);
    }
    up.to(torch::kFloat).sum().backward();
    // LibTorch 1.13 leaves transposed convolutions in float32.
    if (down.scalar_type() == torch::kFloat) throw Error("it computes in float32 instead");
  } catch (const std::exception& error) {
    throw InputError(fmt::format(
        "precision: this LibTorch ({}) can't train in {} on the CPU ({}); {}", TORCH_VERSION,
        precision == Precision::bf16 ? "bf16" : "fp16", first_line_of(error.what()),
        precision == Precision::bf16 ? "use training.precision=fp32"
                                     : "use training.precision=bf16, which has the range of "
                                       "float32 and needs no loss scale"));
  }
}

torch::Tensor forward_for(const Objective& objective, Network& network,
                          const torch::Tensor& input) {
  const auto precision = objective.precision;
  if (precision == Precision::fp32) return network.forward(input);
  torch::Tensor outputs;
  {
    const AutocastGuard guard(precision, input.device().type());
    outputs = network.forward(input);
  }
  return outputs.to(torch::kFloat);
}

torch::Tensor class_probabilities(const torch::Tensor& outputs) {
  if (outputs.size(1) > 1) return outputs.softmax(1);
  const auto second = outputs.sigmoid();
  return torch::cat({1 - second, second}, 1);
}

namespace {

torch::DeviceType device_type_of(const StagePayload& payload) {
  for (const auto& tensor : payload)
    if (tensor.defined()) return tensor.device().type();
  return torch::kCPU;
}

}  // namespace

// The guards are outside of the recomputed part, which repeats in backward what it did under them.
std::vector<NetworkStage> training_stages(const Objective& objective,
                                          std::vector<NetworkStage> stages, bool recompute) {
  if (recompute) stages = recomputed(std::move(stages));
  for (auto& stage : stages) {
    const bool is_last = &stage == &stages.back();
    stage.forward = [forward = std::move(stage.forward), is_last,
                     precision = objective.precision](StagePayload payload) {
      if (precision == Precision::fp32) return forward(std::move(payload));
      {
        const AutocastGuard guard(precision, device_type_of(payload));
        payload = forward(std::move(payload));
      }
      if (is_last)
        for (auto& output : payload) output = output.to(torch::kFloat);
      return payload;
    };
  }
  return stages;
}

}  // namespace kolo
