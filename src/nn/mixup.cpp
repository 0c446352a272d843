#include "kolo/nn/mixup.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// Uniform in (0, 1].
double positive_uniform(CounterRandom& random) {
  return (static_cast<double>(random.next64() >> 11) + 1) * 0x1p-53;
}

// The logarithm of a number from Gamma(shape, 1), because the number itself is too small for a
// double when the shape is. (Marsaglia and Tsang, "A simple method for generating gamma variables",
// 2000; their section 6 for shapes below 1.)
double log_gamma_variate(double shape, CounterRandom& random) {
  if (shape < 1) {
    const double larger = log_gamma_variate(shape + 1, random);
    return larger + std::log(positive_uniform(random)) / shape;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(positive_uniform(random)) < x * x / 2 + d * (1 - v + std::log(v)))
      return std::log(d) + std::log(v);
  }
}

// From Beta(alpha, alpha).
double beta_variate(double alpha, CounterRandom& random) {
  const double first = log_gamma_variate(alpha, random);
  const double second = log_gamma_variate(alpha, random);
  return 1 / (1 + std::exp(second - first));
}

torch::Tensor random_permutation(std::int64_t length, CounterRandom& random) {
  std::vector<std::int64_t> order(narrow<std::size_t>(length));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random.below(narrow<std::uint32_t>(left))]);
  return torch::tensor(order, torch::kInt64);
}

}  // namespace

MixedBatch mix(const torch::Tensor& inputs, const torch::Tensor& targets, double alpha,
               CounterRandom& random) {
  if (!(alpha > 0 && alpha <= std::numeric_limits<double>::max())) {
    throw InputError(fmt::format("mixup: alpha is {}, expected a number above 0", alpha));
  }
  if (!inputs.is_floating_point() || inputs.dim() < 1 || targets.dim() < 1 ||
      inputs.size(0) != targets.size(0)) {
    throw InputError(fmt::format(
        "mixup: inputs [{}] of {} and targets [{}], expected floating-point inputs and as many "
        "targets",
        fmt::join(inputs.sizes().vec(), ", "), torch::toString(inputs.scalar_type()),
        fmt::join(targets.sizes().vec(), ", ")));
  }
  const double share = beta_variate(alpha, random);
  const auto partners =
      random_permutation(inputs.size(0), random).to(inputs.device(), /*non_blocking=*/true);
  return {torch::lerp(inputs.index_select(0, partners), inputs, share), targets,
          targets.index_select(0, partners.to(targets.device())), share};
}

torch::Tensor mixed_loss(const LossFunction& loss, const torch::Tensor& outputs,
                         const MixedBatch& batch) {
  return batch.share * loss(outputs, batch.targets) +
         (1 - batch.share) * loss(outputs, batch.partner_targets);
}

}  // namespace kolo
