#include "train/state_json.h"

#include <limits>

#include "base/json_value.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// JSON has no NaN: it is written as null, and a diverged run must be loadable all the same.
double number(const nlohmann::json& document, const char* key) {
  const auto& value = document.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

}  // namespace

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
  try {
    TrainState state;
    state.is_validated = document.value("is_validated", true);  // older ones were not asked
    state.step = document.at("step").get<std::int64_t>();
    state.epoch = document.at("epoch").get<std::int64_t>();
    state.position = document.at("position").get<std::int64_t>();
    const auto& sums = document.at("sums");
    state.sums = {number(sums, "loss"), number(sums, "correct"), number(sums, "in_top"),
                  number(sums, "samples")};
    state.skipped_steps = document.value("skipped_steps", std::int64_t{0});  // older: none
    state.skipped_in_epoch = document.value("skipped_in_epoch", std::int64_t{0});
    state.epoch_seconds = number(document, "epoch_seconds");
    state.best_accuracy = number(document, "best_accuracy");
    // Older checkpoints have none, and JSON has no infinity.
    if (const auto best = document.find("best_loss"); best != document.end() && !best->is_null())
      state.best_loss = best->get<double>();
    state.best_epoch = document.at("best_epoch").get<std::int64_t>();
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw Error(std::string("train: the checkpoint's state.json is not one of kolo's: ") +
                in_plain_words(error));
  }
}

}  // namespace kolo
