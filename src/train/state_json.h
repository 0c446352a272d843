#pragma once

#include <utility>

#include <nlohmann/json.hpp>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/grad_scaler.h"
#include "kolo/parallel/gradient_noise.h"
#include "kolo/train/train_state.h"

// The state in a checkpoint's state.json; numbers come back as the same bits. What reads it throws
// Error for a document that to_json() has not made.
namespace kolo {

[[nodiscard]] nlohmann::json to_json(const TrainState& state);
[[nodiscard]] TrainState train_state_from_json(const nlohmann::json& document);

[[nodiscard]] nlohmann::json to_json(const GradScaler::State& state);
[[nodiscard]] GradScaler::State loss_scale_from_json(const nlohmann::json& document);

// The noise of gradients, and of how many samples it was measured last.
[[nodiscard]] nlohmann::json to_json(const GradientNoise::State& state, double samples);
[[nodiscard]] std::pair<GradientNoise::State, double> noise_from_json(
    const nlohmann::json& document);

[[nodiscard]] nlohmann::json to_json(const RateHistory& rates);
[[nodiscard]] RateHistory rate_history_from_json(const nlohmann::json& document);

}  // namespace kolo
