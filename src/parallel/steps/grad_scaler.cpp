#include "kolo/parallel/grad_scaler.h"

#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

GradScaler::GradScaler(const LossScaleOptions& options, const torch::Device& device)
    : options_(options),
      scale_(
          torch::full({1}, options.initial, torch::TensorOptions(torch::kDouble).device(device))),
      good_steps_(torch::zeros({1}, torch::TensorOptions(torch::kLong).device(device))) {
  const auto is_positive = [](double number) { return number > 0 && std::isfinite(number); };
  if (is_positive(options.initial) && is_positive(options.growth) && options.growth >= 1 &&
      is_positive(options.backoff) && options.backoff <= 1 && options.growth_interval >= 1)
    return;
  throw InputError(fmt::format(
      "loss scale: initial {}, growth {} after {} steps, backoff {}; expected numbers above 0, the "
      "growth at least 1, the backoff at most 1",
      options.initial, options.growth, options.growth_interval, options.backoff));
}

torch::Tensor GradScaler::scaled(const torch::Tensor& loss) const {
  return loss * scale_.to(loss.scalar_type()).squeeze();
}

// A scale that isn't a number of float32 any more would end the training.
void GradScaler::update(const torch::Tensor& left_out) {
  const torch::NoGradGuard no_gradient;
  const auto is_left_out = left_out.ne(0);
  const auto good_steps = good_steps_ + 1;
  const auto is_due = good_steps.ge(options_.growth_interval);
  const auto grown = scale_ * options_.growth;
  const auto grows = is_due.logical_and(grown.to(torch::kFloat).isfinite());
  const auto none = torch::zeros_like(good_steps_);
  scale_.copy_(
      torch::where(is_left_out, scale_ * options_.backoff, torch::where(grows, grown, scale_)));
  good_steps_.copy_(torch::where(is_left_out.logical_or(is_due), none, good_steps));
}

GradScaler::State GradScaler::state() const {
  return {scale_.item<double>(), good_steps_.item<std::int64_t>()};
}

void GradScaler::restore(const State& state) {
  scale_.fill_(state.scale);
  good_steps_.fill_(state.good_steps);
}

}  // namespace kolo
