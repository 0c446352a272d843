#include "kolo/nn/weights.h"

#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"

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

}  // namespace kolo
