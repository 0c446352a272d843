#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/settings/choice.h"

// Optimizers and schedules of the learning rate by name, with their keys in a configuration.
namespace kolo {

// What pulls the parameters towards zero, and which; see flat_optimizer.h.
struct WeightDecay {
  double weight = 0;
  bool is_decoupled = false;
  bool excludes_vectors = false;
};

struct OptimizerEntry : ChoiceEntry {
  double usual_rate = .001;      // Keras's
  bool decouples_decay = false;  // whether it is asked to or not
  bool has_own_decay = false;    // a kind of its own, neither in the gradient nor decoupled
  std::function<std::unique_ptr<FlatOptimizer>(const OwnSettings&, const WeightDecay&)> make = {};
  // What is worth saying when a training starts, or nothing.
  std::function<std::string(const OwnSettings&)> remark = [](const OwnSettings&) {
    return std::string();
  };
};

// Those of src/optim/catalogue.
[[nodiscard]] const std::vector<OptimizerEntry>& built_in_optimizers();

// Error where there is none of that name.
[[nodiscard]] const OptimizerEntry& optimizer_entry(std::string_view name);

// What a schedule is made for.
struct ScheduleRequest {
  std::int64_t total_steps = 0;  // of the training, warm-up included
  std::int64_t steps_per_epoch = 0;
  std::vector<RateInterval> intervals = {};  // rates by epochs, where they are given
};

struct ScheduleEntry : ChoiceEntry {
  std::function<Schedule(const OwnSettings&, const ScheduleRequest&)> make = {};
  bool takes_intervals = false;
  bool is_own_warmup = false;  // takes no other
};

// Those of src/optim/schedules.
[[nodiscard]] const std::vector<ScheduleEntry>& built_in_schedules();

// Error where there is none of that name.
[[nodiscard]] const ScheduleEntry& schedule_entry(std::string_view name);

}  // namespace kolo
