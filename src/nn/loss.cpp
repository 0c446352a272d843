#include "kolo/nn/loss.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "nn/losses/loss_entry.h"
#include "nn/script.h"
#include "nn/tensor_text.h"

namespace kolo {

const LossEntry& loss_entry(std::string_view name) {
  return entry_named(built_in_losses(), name, "loss: unknown loss");
}

LossFunction make_loss(std::string_view name) {
  const auto& entry = loss_entry(name);
  return entry.make(entry.defaults);
}

namespace {

// "outputs [4, 1] of Float; targets [4, 1] of Float; extras nothing"
std::string text_of_batch(TensorSpan outputs, TensorSpan targets, TensorSpan extras) {
  return fmt::format("outputs {}; targets {}; extras {}", shapes_of(outputs), shapes_of(targets),
                     shapes_of(extras));
}

torch::Tensor sum_of_pairs(const LossFunction& loss, TensorSpan outputs, TensorSpan targets,
                           TensorSpan extras) {
  if (outputs.empty() || outputs.size() != targets.size() || !extras.empty()) {
    throw InputError(
        fmt::format("loss: {}; expected a target per output and no extras, which only "
                    "a loss from a file takes",
                    text_of_batch(outputs, targets, extras)));
  }
  torch::Tensor sum = loss(outputs[0], targets[0]);
  for (std::size_t i = 1; i < outputs.size(); ++i) sum = sum + loss(outputs[i], targets[i]);
  return sum;
}

class ScriptLoss {
 public:
  explicit ScriptLoss(const std::filesystem::path& path) : script_(path, "loss") {
    set_training(script_.module(), false);
    for (const torch::Tensor& parameter : script_.module().parameters())
      parameter.set_requires_grad(false);
  }

  torch::Tensor operator()(TensorSpan outputs, TensorSpan targets, TensorSpan extras) {
    std::vector<torch::Tensor> all(outputs.begin(), outputs.end());
    all.insert(all.end(), targets.begin(), targets.end());
    all.insert(all.end(), extras.begin(), extras.end());
    const c10::IValue result = script_.forward(all);
    require_scalar(result, outputs, targets, extras);
    return result.toTensor();
  }

 private:
  void require_scalar(const c10::IValue& result, TensorSpan outputs, TensorSpan targets,
                      TensorSpan extras) const {
    const auto refuse = [&](const std::string& found, std::string_view advice) {
      throw InputError(fmt::format("{}: gives {} for {}, expected {}", script_.name(), found,
                                   text_of_batch(outputs, targets, extras), advice));
    };
    constexpr std::string_view a_scalar = "a floating scalar, as .mean() and .sum() give";
    if (!result.isTensor()) refuse("a " + result.type()->str(), a_scalar);
    const torch::Tensor& loss = result.toTensor();
    if (loss.dim() != 0 || !loss.is_floating_point()) refuse(shape_of(loss), a_scalar);
    const bool is_trained = torch::GradMode::is_enabled() &&
                            std::ranges::any_of(outputs, &torch::Tensor::requires_grad);
    if (is_trained && !loss.requires_grad())
      refuse("a number without a gradient", "one that depends on the outputs");
  }

  Script script_;
};

}  // namespace

TensorsLoss as_tensors_loss(LossFunction loss) {
  return [loss = std::move(loss)](TensorSpan outputs, TensorSpan targets, TensorSpan extras) {
    return sum_of_pairs(loss, outputs, targets, extras);
  };
}

TensorsLoss make_torchscript_loss(const std::filesystem::path& path) {
  return ScriptLoss(path);
}

}  // namespace kolo
