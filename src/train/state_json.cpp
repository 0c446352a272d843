#include "train/state_json.h"

#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// JSON has no NaN: it is written as null, and a diverged run must be loadable all the same.
double number(const nlohmann::json& document, const char* key) {
  const auto& value = document.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// What `read` makes of a document that `what` names.
template <typename Read>
auto read_own(const char* what, const Read& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("train: {} is not one of kolo's: {}", what, in_plain_words(error)));
  }
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
            {"samples", state.sums.samples},
            {"replaced", state.sums.replaced}}},
          {"skipped_steps", state.skipped_steps},
          {"skipped_in_epoch", state.skipped_in_epoch},
          {"epoch_seconds", state.epoch_seconds},
          {"best_accuracy", state.best_accuracy},
          {"best_loss", state.best_loss},
          {"best_epoch", state.best_epoch},
          {"base_steps", state.base_steps}};
}

TrainState train_state_from_json(const nlohmann::json& document) {
  return read_own("the checkpoint's state.json", [&] {
    TrainState state;
    state.is_validated = document.value("is_validated", true);  // older ones were not asked
    state.step = document.at("step").get<std::int64_t>();
    state.epoch = document.at("epoch").get<std::int64_t>();
    state.position = document.at("position").get<std::int64_t>();
    const auto& sums = document.at("sums");
    state.sums = {number(sums, "loss"), number(sums, "correct"), number(sums, "in_top"),
                  number(sums, "samples"), sums.value("replaced", 0.)};      // older: none
    state.skipped_steps = document.value("skipped_steps", std::int64_t{0});  // older: none
    state.skipped_in_epoch = document.value("skipped_in_epoch", std::int64_t{0});
    state.epoch_seconds = number(document, "epoch_seconds");
    state.best_accuracy = number(document, "best_accuracy");
    // Older checkpoints have none, and JSON has no infinity.
    if (const auto best = document.find("best_loss"); best != document.end() && !best->is_null())
      state.best_loss = best->get<double>();
    state.best_epoch = document.at("best_epoch").get<std::int64_t>();
    // Older ones were never more than their steps.
    state.base_steps = document.value("base_steps", static_cast<double>(state.step));
    return state;
  });
}

nlohmann::json to_json(const GradScaler::State& state) {
  return {{"scale", state.scale}, {"good_steps", state.good_steps}};
}

GradScaler::State loss_scale_from_json(const nlohmann::json& document) {
  return read_own("the loss scale of the checkpoint's state.json", [&]() -> GradScaler::State {
    return {document.at("scale").get<double>(), document.at("good_steps").get<std::int64_t>()};
  });
}

nlohmann::json to_json(const GradientNoise::State& state, double samples) {
  return {{"gradient", state.gradient},
          {"noise", state.noise},
          {"weight", state.weight},
          {"samples", samples}};
}

std::pair<GradientNoise::State, double> noise_from_json(const nlohmann::json& document) {
  return read_own("the gradient noise of the checkpoint's state.json", [&] {
    const GradientNoise::State state{number(document, "gradient"), number(document, "noise"),
                                     number(document, "weight")};
    return std::pair(state, number(document, "samples"));
  });
}

nlohmann::json to_json(const RateHistory& rates) {
  return {{"largest", rates.largest}, {"sum_of_squares", rates.sum_of_squares}};
}

RateHistory rate_history_from_json(const nlohmann::json& document) {
  return read_own("the history of rates in the checkpoint's state.json", [&] {
    return RateHistory{number(document, "largest"), number(document, "sum_of_squares")};
  });
}

}  // namespace kolo
