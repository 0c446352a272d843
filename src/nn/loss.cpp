#include "kolo/nn/loss.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <torch/nn/functional.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

namespace functional = torch::nn::functional;

constexpr double density_exponent = 14;  // a field's first channel is ln(rho) / 14

std::string shape_of(const torch::Tensor& tensor) {
  return fmt::format("[{}] of {}", fmt::join(tensor.sizes().vec(), ", "),
                     torch::toString(tensor.scalar_type()));
}

torch::Tensor cross_entropy(const torch::Tensor& outputs, const torch::Tensor& targets,
                            double smoothing) {
  const bool logits = outputs.dim() == 2 && outputs.is_floating_point();
  const bool indices = logits && targets.dim() == 1 && targets.size(0) == outputs.size(0) &&
                       targets.scalar_type() == torch::kInt64;
  const bool probabilities =
      logits && targets.is_floating_point() && targets.sizes() == outputs.sizes();
  if (!indices && !probabilities) {
    throw InputError(fmt::format(
        "loss: cross_entropy of outputs {} and targets {}, expected logits [N, classes] and the "
        "classes' indices [N] of Long, or probabilities [N, classes]",
        shape_of(outputs), shape_of(targets)));
  }
  if (outputs.size(1) == 1) {
    throw InputError(
        "loss: cross_entropy of a network with one output is 0 whatever it puts out; use "
        "binary_cross_entropy, or as many outputs as there are classes");
  }
  return functional::cross_entropy(
      outputs, targets, functional::CrossEntropyFuncOptions().label_smoothing(smoothing));
}

torch::Tensor binary_cross_entropy(const torch::Tensor& outputs, const torch::Tensor& targets,
                                   double smoothing) {
  const auto is_column = [](const torch::Tensor& tensor) {
    return tensor.dim() == 1 || (tensor.dim() == 2 && tensor.size(1) == 1);
  };
  if (!is_column(outputs) || !is_column(targets) || outputs.numel() != targets.numel()) {
    throw InputError(fmt::format(
        "loss: binary_cross_entropy of outputs {} and targets {}, expected one logit "
        "and one target per sample, [N] or [N, 1]; for a network of several outputs use "
        "cross_entropy",
        shape_of(outputs), shape_of(targets)));
  }
  torch::Tensor soft = targets.to(outputs.scalar_type()).reshape(outputs.sizes());
  if (smoothing > 0) soft = soft * (1 - smoothing) + smoothing / 2;
  return functional::binary_cross_entropy_with_logits(outputs, soft);
}

torch::Tensor l1(const torch::Tensor& outputs, const torch::Tensor& targets, double lambda_rho) {
  const bool has_channels = outputs.dim() >= 2 || lambda_rho == 0;
  if (outputs.sizes() != targets.sizes() || !targets.is_floating_point() || !has_channels) {
    throw InputError(fmt::format(
        "loss: l1 of outputs {} and targets {}, expected numbers of one shape{}", shape_of(outputs),
        shape_of(targets), has_channels ? "" : ", [N, channels, ...] for lambda_rho"));
  }
  const torch::Tensor loss = functional::l1_loss(outputs, targets);
  if (lambda_rho == 0) return loss;
  const auto density = [](const torch::Tensor& fields) {
    return torch::exp(density_exponent * fields.select(1, 0));
  };
  return loss + lambda_rho * functional::l1_loss(density(outputs), density(targets));
}

void check(const LossOptions& options) {
  const double smoothing = options.label_smoothing;
  if (!(smoothing >= 0 && smoothing < 1)) {
    throw InputError(
        fmt::format("loss: label smoothing is {}, expected a number from 0 to below 1", smoothing));
  }
  if (!(options.lambda_rho >= 0) || !std::isfinite(options.lambda_rho)) {
    throw InputError(
        fmt::format("loss: lambda_rho is {}, expected a number of 0 or more", options.lambda_rho));
  }
  const bool has_classes = is_of_classes(options.kind);
  if (!has_classes && smoothing > 0)
    throw InputError("loss: label smoothing is for classes; l1 has none");
  if (has_classes && options.lambda_rho > 0)
    throw InputError("loss: lambda_rho is for the loss l1 of density fields, not for classes");
}

}  // namespace

bool is_of_classes(LossKind kind) {
  return kind != LossKind::l1;
}

LossKind loss_named(const std::string& name) {
  return named<LossKind>("loss", "loss", name);
}

LossFunction make_loss(const LossOptions& options) {
  check(options);
  if (options.kind == LossKind::l1) {
    return
        [lambda = options.lambda_rho](const torch::Tensor& outputs, const torch::Tensor& targets) {
          return l1(outputs, targets, lambda);
        };
  }
  const double smoothing = options.label_smoothing;
  const auto loss = options.kind == LossKind::cross_entropy ? cross_entropy : binary_cross_entropy;
  return [loss, smoothing](const torch::Tensor& outputs, const torch::Tensor& targets) {
    return loss(outputs, targets, smoothing);
  };
}

LossFunction make_loss(LossKind kind) {
  return make_loss(LossOptions{.kind = kind});
}

}  // namespace kolo
