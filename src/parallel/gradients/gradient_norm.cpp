#include <cmath>
#include <set>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/gradient_norm.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

double norm_together(const std::vector<torch::Tensor>& tensors) {
  if (tensors.empty()) return 0;
  const auto device = tensors.front().device();
  const auto total = torch::zeros({1}, torch::TensorOptions(torch::kDouble).device(device));
  for (const torch::Tensor& tensor : tensors) {
    if (tensor.device() != device) {
      throw Error(fmt::format(
          "parallel: can't clip gradients on {} and {} together; give those of one device",
          device.str(), tensor.device().str()));
    }
    parallel::add_to_norm(tensor, total);
  }
  return std::sqrt(total.item<double>());
}

}  // namespace

double clip_factor(double norm, double maximum_norm) {
  if (!(maximum_norm >= 0)) {
    throw Error(fmt::format("parallel: can't clip gradients to a norm of {}; it must be 0 or more",
                            maximum_norm));
  }
  const double factor = maximum_norm / (norm + 1e-6);
  return std::isfinite(norm) && factor < 1 ? factor : 1;
}

torch::Tensor clip_factor(const torch::Tensor& norm, double maximum_norm) {
  const auto factor = maximum_norm / (norm + 1e-6);
  return torch::where(norm.isfinite().logical_and(factor.lt(1)), factor, torch::ones_like(norm));
}

double clip_gradient_norm(const std::vector<torch::Tensor>& parameters, double maximum_norm) {
  const torch::NoGradGuard no_gradient;
  // A sparse gradient that lists rows more than once has the norm of their sums, but what is scaled
  // are the values that it holds: coalesce() gives a copy then.
  std::vector<torch::Tensor> sums, values;
  std::set<const c10::TensorImpl*> known;
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor gradient = parameter.grad();
    if (!gradient.defined() || !known.insert(parameter.unsafeGetTensorImpl()).second) continue;
    (void)gradient.unsqueeze(0);  // throws while the gradient is being averaged
    sums.push_back(gradient.is_sparse() ? gradient.coalesce()._values() : gradient);
    values.push_back(gradient.is_sparse() ? gradient._values() : gradient);
  }
  const double norm = norm_together(sums);
  const double factor = clip_factor(norm, maximum_norm);
  if (factor < 1) {
    for (const torch::Tensor& tensor : values) tensor.mul_(factor);
  }
  return norm;
}

}  // namespace kolo
