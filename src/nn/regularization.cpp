#include "kolo/nn/regularization.h"

#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/nn/summary.h"

namespace kolo {

namespace {

// The sum of squares in one pass over the memory, in pieces that keep float32 sums accurate.
torch::Tensor sum_of_squares(const torch::Tensor& weight) {
  constexpr std::int64_t piece = 1 << 16;
  // A channels-last weight in the order of its memory, without a copy.
  const torch::Tensor flat = weight.is_non_overlapping_and_dense()
                                 ? weight.as_strided({weight.numel()}, {1})
                                 : weight.flatten();
  std::vector<torch::Tensor> sums;
  for (const torch::Tensor& part : flat.split(piece)) sums.push_back(part.dot(part));
  return torch::stack(sums).sum();
}

// Recorded as one node for all weights, instead of several nodes and a temporary for each.
class L2Penalty : public torch::autograd::Function<L2Penalty> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::TensorList weights,
                               double factor) {
    context->save_for_backward(weights.vec());
    context->saved_data["factor"] = factor;
    torch::Tensor sum = torch::zeros({}, weights.front().options());
    for (const torch::Tensor& weight : weights) sum += sum_of_squares(weight);
    return sum.mul_(factor);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::Tensor scale = gradients.front() * (2 * context->saved_data["factor"].toDouble());
    torch::autograd::variable_list result;
    for (const torch::Tensor& weight : context->get_saved_variables())
      result.push_back(weight * scale);
    result.emplace_back();  // of the factor
    return result;
  }
};

}  // namespace

bool is_decayed(const torch::Tensor& parameter) {
  return parameter.dim() >= 2;
}

std::vector<bool> decayed_parameters(const torch::nn::Module& module) {
  std::vector<bool> flags;
  for (const torch::Tensor& parameter : module.parameters()) flags.push_back(is_decayed(parameter));
  return flags;
}

torch::Tensor l2_penalty(const torch::nn::Module& module, double factor) {
  if (!(factor >= 0 && std::isfinite(factor))) {
    throw InputError(
        fmt::format("regularization: an L2 factor of {}, expected 0 or a number above it", factor));
  }
  torch::autograd::variable_list weights;
  for (const torch::Tensor& parameter : distinct_parameters(module)) {
    if (parameter.requires_grad() && is_decayed(parameter)) weights.push_back(parameter);
  }
  if (weights.empty()) return torch::zeros({});
  return L2Penalty::apply(torch::TensorList(weights), factor);
}

}  // namespace kolo
