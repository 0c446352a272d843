#include "train/state_json.h"

#include <cstdint>
#include <limits>

namespace kolo {

double number_in(const nlohmann::json& document, const char* key) {
  const auto& value = document.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

nlohmann::json to_json(const TrainState& state) {
  return {{"is_validated", state.is_validated},
          {"step", state.step},
          {"epoch", state.epoch},
          {"position", state.position},
          {"sums",
           {{"loss", state.sums.loss},
            {"correct", state.sums.correct},
            {"in_top", state.sums.in_top},
            {"samples", state.sums.samples}}},
          {"skipped_steps", state.skipped_steps},
          {"skipped_in_epoch", state.skipped_in_epoch},
          {"epoch_seconds", state.epoch_seconds},
          {"best_accuracy", state.best_accuracy},
          {"best_loss", state.best_loss},
          {"best_epoch", state.best_epoch}};
}

TrainState train_state_from_json(const nlohmann::json& document) {
  TrainState state;
  state.is_validated = document.at("is_validated").get<bool>();
  state.step = document.at("step").get<std::int64_t>();
  state.epoch = document.at("epoch").get<std::int64_t>();
  state.position = document.at("position").get<std::int64_t>();
  const auto& sums = document.at("sums");
  state.sums = {number_in(sums, "loss"), number_in(sums, "correct"), number_in(sums, "in_top"),
                number_in(sums, "samples")};
  state.skipped_steps = document.at("skipped_steps").get<std::int64_t>();
  state.skipped_in_epoch = document.at("skipped_in_epoch").get<std::int64_t>();
  state.epoch_seconds = number_in(document, "epoch_seconds");
  state.best_accuracy = number_in(document, "best_accuracy");
  if (const auto& best = document.at("best_loss"); !best.is_null())  // JSON has no infinity
    state.best_loss = best.get<double>();
  state.best_epoch = document.at("best_epoch").get<std::int64_t>();
  return state;
}

}  // namespace kolo
