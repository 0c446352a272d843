#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kolo/optim/flat_optimizer.h"

namespace kolo::testing {

// Every optimizer, in each form that has loops of its own.
struct NamedOptimizer {
  std::string label;
  std::shared_ptr<const FlatOptimizer> optimizer;
};

inline std::vector<NamedOptimizer> every_optimizer() {
  return {
      {"Sgd", make_sgd({.weight_decay = .1})},
      {"SgdMomentum", make_sgd({.momentum = .9, .dampening = .3, .weight_decay = .1})},
      {"SgdNesterov", make_sgd({.momentum = .9, .nesterov = true})},
      {"SgdDecoupled", make_sgd({.weight_decay = .1, .decoupled_decay = true})},
      {"Adam", make_adam({.weight_decay = .1})},
      {"AdamW", make_adam({.weight_decay = .1, .decoupled_decay = true})},
      {"AdamKeras", make_adam({.epsilon_before_correction = true})},
      {"Amsgrad", make_adam({.beta2 = .5, .amsgrad = true})},
      {"Rmsprop", make_rmsprop({})},
      {"RmspropMomentum", make_rmsprop({.momentum = .9, .weight_decay = .1})},
      {"RmspropCentered", make_rmsprop({.centered = true, .as_keras = false})},
      {"RmspropMomentumCentered", make_rmsprop({.momentum = .9, .centered = true})},
      {"Adagrad", make_adagrad({.weight_decay = .1})},
      {"Adadelta", make_adadelta({.weight_decay = .1, .decoupled_decay = true})},
      {"Adamax", make_adamax({})},
      {"Nadam", make_nadam({.weight_decay = .1})},
      {"ScheduleFreeSgd", make_schedule_free_sgd({.weight_decay = .1})},
      {"ScheduleFreeAdamw", make_schedule_free_adamw({.weight_decay = .1})},
      {"Lars", make_lars({.weight_decay = .01})},
      {"LarsWithoutMomentum", make_lars({.momentum = 0, .weight_decay = .01})},
      {"Lamb", make_lamb({.weight_decay = .01})},
  };
}

}  // namespace kolo::testing
