#include "kolo/nn/weights.h"

#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/nn/network.h"

namespace kolo {

namespace {

struct Fans {
  double in = 0;
  double out = 0;
};

Fans fans_of(const torch::Tensor& weight) {
  if (weight.dim() < 2 || weight.numel() == 0) {
    throw Error(
        fmt::format("initialization: a weight of shape [{}], expected [outputs, inputs, ...kernel] "
                    "without zeros",
                    fmt::join(weight.sizes().vec(), ", ")));
  }
  const auto elements = static_cast<double>(weight.numel());
  return {elements / static_cast<double>(weight.size(0)),
          elements / static_cast<double>(weight.size(1))};
}

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

void he_normal(const torch::Tensor& weight) {
  const torch::NoGradGuard no_gradient;
  // The standard deviation of a standard normal distribution cut off at -2 and 2.
  const double truncated_deviation = 0.87962566103423978;
  const double deviation = std::sqrt(2 / fans_of(weight).in) / truncated_deviation;
  const torch::Tensor values =
      torch::randn({weight.numel()}, weight.options().requires_grad(false));
  torch::Tensor outside = values.abs().gt(2).nonzero().flatten();
  while (outside.numel() > 0) {  // about one in twenty, to be drawn again
    const torch::Tensor again = torch::randn({outside.numel()}, values.options());
    values.index_copy_(0, outside, again);
    outside = outside.masked_select(again.abs().gt(2));
  }
  weight.copy_(values.mul_(deviation).view(weight.sizes()));
}

void glorot_uniform(const torch::Tensor& weight) {
  const torch::NoGradGuard no_gradient;
  const Fans fans = fans_of(weight);
  const double bound = std::sqrt(6 / (fans.in + fans.out));
  weight.uniform_(-bound, bound);
}

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
