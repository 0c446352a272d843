#include "kolo/parallel/grad_scaler.h"

#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

GradScaler::GradScaler(const LossScaleOptions& options)
    : options_(options), state_{options.initial, 0} {
  const auto is_positive = [](double number) { return number > 0 && std::isfinite(number); };
  if (is_positive(options.initial) && is_positive(options.growth) && options.growth >= 1 &&
      is_positive(options.backoff) && options.backoff <= 1 && options.growth_interval >= 1)
    return;
  throw InputError(fmt::format(
      "loss scale: initial {}, growth {} after {} steps, backoff {}; expected numbers above 0, the "
      "growth at least 1, the backoff at most 1",
      options.initial, options.growth, options.growth_interval, options.backoff));
}

void GradScaler::unscale(const ParameterArena& arena) const {
  for (std::size_t bucket = 0; bucket < arena.buckets(); ++bucket)
    torch::Tensor(arena.flat_gradients(bucket)).mul_(1 / scale());
}

void GradScaler::update(bool was_finite) {
  if (!was_finite) {
    state_ = {state_.scale * options_.backoff, 0};
    return;
  }
  if (++state_.good_steps < options_.growth_interval) return;
  state_.good_steps = 0;
  // A scale that isn't a number of float32 any more would end the training.
  const double grown = state_.scale * options_.growth;
  if (std::isfinite(static_cast<float>(grown))) state_.scale = grown;
}

}  // namespace kolo
