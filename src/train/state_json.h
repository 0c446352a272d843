#pragma once

#include <nlohmann/json.hpp>

#include "kolo/train/train_state.h"

// The state in a checkpoint's state.json; numbers come back as the same bits. The readers throw
// nlohmann's exceptions for a document that to_json() has not made.
namespace kolo {

[[nodiscard]] nlohmann::json to_json(const TrainState& state);
[[nodiscard]] TrainState train_state_from_json(const nlohmann::json& document);

// A number of the document. JSON has no NaN: it is written as null, and a diverged run must be
// loadable all the same.
[[nodiscard]] double number_in(const nlohmann::json& document, const char* key);

}  // namespace kolo
