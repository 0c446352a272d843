#include "parallel/optimizers/option_groups.h"

#include <cstddef>
#include <optional>

#include <c10/util/Exception.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

namespace kolo::parallel {

namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;

// Calls the function with both as what they are, if they are of one of LibTorch's kinds.
template <typename Function, typename... Kinds>
bool as_kind(OptimizerOptions& a, const OptimizerOptions& b, const Function& function) {
  const auto as = [&]<typename Kind>(const Kind*) {
    auto* const first = dynamic_cast<Kind*>(&a);
    const auto* const second = dynamic_cast<const Kind*>(&b);
    if (!first || !second) return false;
    function(*first, *second);
    return true;
  };
  return (as(static_cast<const Kinds*>(nullptr)) || ...);
}

template <typename Function>
bool as_known(OptimizerOptions& a, const OptimizerOptions& b, const Function& function) {
  return as_kind<Function, torch::optim::AdagradOptions, torch::optim::AdamOptions,
                 torch::optim::AdamWOptions, torch::optim::LBFGSOptions,
                 torch::optim::RMSpropOptions, torch::optim::SGDOptions>(a, b, function);
}

// LibTorch throws for options that have none.
std::optional<double> rate_of(const OptimizerOptions& options) {
  try {
    return options.get_lr();
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

bool equal_options(OptimizerOptions& a, const OptimizerOptions& b) {
  bool result = false;
  const bool is_known =
      as_known(a, b, [&](const auto& first, const auto& second) { result = first == second; });
  return is_known ? result : rate_of(a) == rate_of(b);
}

void assign_options(OptimizerOptions& to, const OptimizerOptions& from) {
  if (as_known(to, from, [](auto& target, const auto& source) { target = source; })) return;
  if (const auto rate = rate_of(from)) to.set_lr(*rate);
}

OptimizerOptions& options_of(Optimizer& optimizer, std::size_t place) {
  return place == 0 ? optimizer.defaults() : optimizer.param_groups()[place - 1].options();
}

void add_missing(Optimizer& to, Optimizer& from) {
  while (to.param_groups().size() < from.param_groups().size())
    to.add_param_group(from.param_groups()[to.param_groups().size()]);
}

}  // namespace

OptionGroups::OptionGroups(Optimizer& inside, Optimizer& outside)
    : inside_(inside), outside_(outside) {
  note();
}

void OptionGroups::meet() {
  add_missing(inside_, outside_);
  add_missing(outside_, inside_);
  for (std::size_t place = 0; place < last_.size(); ++place) {
    OptimizerOptions& inside = options_of(inside_, place);
    OptimizerOptions& outside = options_of(outside_, place);
    if (equal_options(inside, outside)) continue;
    if (equal_options(outside, *last_[place]))
      assign_options(outside, inside);
    else
      assign_options(inside, outside);
  }
  note();
}

void OptionGroups::note() {
  for (std::size_t place = 0; place <= inside_.param_groups().size(); ++place) {
    if (place == last_.size()) last_.emplace_back();
    last_[place] = options_of(inside_, place).clone();
  }
}

}  // namespace kolo::parallel
