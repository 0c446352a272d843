#include <cmath>

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>

#include "kolo/base/error.h"
#include "nn/losses/loss_entry.h"

namespace kolo {

namespace {

constexpr double density_exponent = 14;  // a field's first channel is ln(rho) / 14

torch::Tensor l1_of(const torch::Tensor& outputs, const torch::Tensor& targets, double lambda_rho) {
  const bool has_channels = outputs.dim() >= 2 || lambda_rho == 0;
  if (outputs.sizes() != targets.sizes() || !targets.is_floating_point() || !has_channels) {
    throw InputError(
        fmt::format("loss: l1 of outputs {} and targets {}, expected numbers of one shape{}",
                    losses::shape_of(outputs), losses::shape_of(targets),
                    has_channels ? "" : ", [N, channels, ...] for lambda_rho"));
  }
  const torch::Tensor loss = torch::nn::functional::l1_loss(outputs, targets);
  if (lambda_rho == 0) return loss;
  const auto density = [](const torch::Tensor& fields) {
    return torch::exp(density_exponent * fields.select(1, 0));
  };
  return loss + lambda_rho * torch::nn::functional::l1_loss(density(outputs), density(targets));
}

}  // namespace

LossFunction make_l1(double lambda_rho) {
  if (!(lambda_rho >= 0) || !std::isfinite(lambda_rho)) {
    throw InputError(
        fmt::format("loss: lambda_rho is {}, expected a number of 0 or more", lambda_rho));
  }
  return [lambda_rho](const torch::Tensor& outputs, const torch::Tensor& targets) {
    return l1_of(outputs, targets, lambda_rho);
  };
}

namespace losses {

struct L1 {
  double lambda_rho = 0;  // the weight of the error in the density itself

  [[nodiscard]] LossFunction make() const { return make_l1(lambda_rho); }
};

template <typename Field>
void visit(Field& field, L1& loss) {
  field("lambda_rho", loss.lambda_rho, not_negative);
}

LossEntry l1() {
  auto entry = entry_of<L1>("l1", "the mean distance of numbers", {"mean_absolute_error"});
  entry.has_classes = false;
  return entry;
}

}  // namespace losses
}  // namespace kolo
