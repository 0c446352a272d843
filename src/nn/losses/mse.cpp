#include <torch/nn/functional/loss.h>

#include "nn/losses/loss_entry.h"

namespace kolo {

LossFunction make_mse() {
  return [](const torch::Tensor& outputs, const torch::Tensor& targets) {
    losses::require_numbers_of_one_shape("mse", outputs, targets);
    return torch::nn::functional::mse_loss(outputs, targets.to(outputs.scalar_type()));
  };
}

namespace losses {

struct Mse : NoSettings {
  [[nodiscard]] LossFunction make() const { return make_mse(); }
};

LossEntry mse() {
  auto entry = entry_of<Mse>("mse", "the mean of squared differences", {"mean_squared_error"});
  entry.has_classes = false;
  return entry;
}

}  // namespace losses
}  // namespace kolo
