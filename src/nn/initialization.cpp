#include "kolo/nn/initialization.h"

#include <cmath>
#include <numbers>

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
  // The inverse of the distribution's function, of uniform numbers between its values at the cuts.
  const double bound = std::erf(std::numbers::sqrt2);
  weight.uniform_(-bound, bound).erfinv_().mul_(deviation * std::numbers::sqrt2);
  weight.clamp_(-2 * deviation, 2 * deviation);
}

void glorot_uniform(const torch::Tensor& weight) {
  const torch::NoGradGuard no_gradient;
  const Fans fans = fans_of(weight);
  const double bound = std::sqrt(6 / (fans.in + fans.out));
  weight.uniform_(-bound, bound);
}

}  // namespace kolo
