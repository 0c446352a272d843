#pragma once

#include <nlohmann/json.hpp>

#include "kolo/train/train_state.h"

namespace kolo {

// The state in a checkpoint's state.json; numbers come back as the same bits.
[[nodiscard]] nlohmann::json to_json(const TrainState& state);
// Error for a document that to_json() has not made.
[[nodiscard]] TrainState train_state_from_json(const nlohmann::json& document);

}  // namespace kolo
