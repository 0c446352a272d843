#include "kolo/train/grad_scaler.h"

#include <cmath>

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/base/error.h"

namespace kolo {

GradScaler::GradScaler(const LossScaleOptions& options)
    : options_(options), scale_(options.initial) {
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
    torch::Tensor(arena.flat_gradients(bucket)).mul_(1 / scale_);
}

void GradScaler::update(bool was_finite) {
  if (!was_finite) {
    scale_ *= options_.backoff;
    good_steps_ = 0;
    return;
  }
  if (++good_steps_ < options_.growth_interval) return;
  good_steps_ = 0;
  // A scale that isn't a number of float32 any more would end the training.
  const double grown = scale_ * options_.growth;
  if (std::isfinite(static_cast<float>(grown))) scale_ = grown;
}

nlohmann::json GradScaler::state() const {
  return {{"scale", scale_}, {"good_steps", good_steps_}};
}

void GradScaler::restore(const nlohmann::json& state) {
  try {
    scale_ = state.at("scale").get<double>();
    good_steps_ = state.at("good_steps").get<std::int64_t>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        fmt::format("train: the loss scale of the checkpoint's state.json is not one of "
                    "kolo's: {}",
                    in_plain_words(error)));
  }
}

}  // namespace kolo
