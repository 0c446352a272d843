#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/settings/choice.h"

// Optimizers and schedules of the learning rate by name, with their keys in a configuration.
namespace kolo {

struct OptimizerEntry : ChoiceEntry {
  double usual_rate = .001;             // Keras's
  bool decouples_decay = false;         // whether it is asked to or not
  bool has_own_decay = false;           // a kind of its own, neither in the gradient nor decoupled
  bool takes_whole_parameters = false;  // FlatOptimizer::is_layerwise()
  bool averages = false;                // FlatOptimizer::for_use(): rates need no decay
  std::function<std::unique_ptr<FlatOptimizer>(const OwnSettings&, const WeightDecay&)> make = {};
  // Remark worth making when a training starts, or nothing.
  std::function<std::string(const OwnSettings&)> remark = [](const OwnSettings&) {
    return std::string();
  };
};

// The optimizers of src/optim/optimizers.cpp.
[[nodiscard]] const std::vector<OptimizerEntry>& built_in_optimizers();

// InputError where there is none of that name.
[[nodiscard]] const OptimizerEntry& optimizer_entry(std::string_view name);

// An optimizer as a configuration describes it.
struct OptimizerConfig {
  std::string name = "sgd";  // required, in any case: one of built_in_optimizers()
  std::optional<double> lr;  // for one rank; unset: Keras's default, .01 or .001
  // Growth of the rate with the number of ranks, or with the global batch over
  // training.base_batch_size.
  Scaling lr_scaling = Scaling::linear;
  OwnSettings own;  // its momentum, epsilon, ...; nothing: its defaults
  double weight_decay = 0;
  bool decoupled_decay = false;         // adamw always, lars and lamb never
  bool decay_excludes_vectors = false;  // biases and batch norm; lars and lamb: always
  // The ranks of a node share a step where that pays (see ArenaOptimizer); never lars and lamb.
  bool shared_step = true;
  // Each rank keeps and updates its part of the state alone (see ShardedArenaOptimizer).
  bool sharded = false;
};

// Checks what depends on several keys. `refuse` takes the section's keys.
void check_optimizer(const OptimizerConfig& optimizer, const RefuseKey& refuse);
// Completes it by its usual rate, and the keys of its own that were left open.
[[nodiscard]] OptimizerConfig completed(OptimizerConfig optimizer);
// The decay that weight_decay and the keys beside it ask for.
[[nodiscard]] WeightDecay decay_of(const OptimizerConfig& optimizer);
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_optimizer(const OptimizerConfig& optimizer,
                                                            const WeightDecay& decay);

// Training that a schedule is made for.
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

// The schedules of src/optim/schedules.cpp.
[[nodiscard]] const std::vector<ScheduleEntry>& built_in_schedules();

// InputError where there is none of that name.
[[nodiscard]] const ScheduleEntry& schedule_entry(std::string_view name);

// The learning rate's course, as the section `training` of a configuration describes it.
struct RateSettings {
  std::int64_t lr_warmup_steps = 0;
  double lr_warmup_from = 1;      // the warm-up sets out from so much of the rate of one rank
  std::string lr_decay = "none";  // one of built_in_schedules()
  OwnSettings lr_decay_own;       // its lr_final_fraction, ...; nothing: its defaults
};

// Facts of a run on which a learning rate depends besides.
struct RateRequest {
  double batch_ratio = 1;                                   // see LearningRatePlan
  std::optional<std::int64_t> warmup_steps = std::nullopt;  // in place of lr_warmup_steps
  bool warmup_only_when_scaled = false;                     // see LearningRatePlan
  ScheduleRequest schedule = {};
};
// `optimizer`: completed().
[[nodiscard]] LearningRate make_learning_rate(const OptimizerConfig& optimizer,
                                              const RateSettings& settings,
                                              const RateRequest& request);

}  // namespace kolo
