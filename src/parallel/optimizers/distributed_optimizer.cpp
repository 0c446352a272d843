#include "kolo/parallel/distributed_optimizer.h"

#include <set>

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "kolo/base/error.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/parallel/gradient_norm.h"
#include "parallel/tensors/tensors.h"

namespace kolo::parallel {

namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;

// Calls `function` with both options as their concrete type; false if the types differ or are none
// of LibTorch's.
template <typename Function>
bool as_known(OptimizerOptions& a, const OptimizerOptions& b, const Function& function) {
  namespace optim = torch::optim;
  const auto as = [&]<typename Kind>(Kind* first) {
    const auto* const second = dynamic_cast<const Kind*>(&b);
    if (first == nullptr || second == nullptr) return false;
    function(*first, *second);
    return true;
  };
  return as(dynamic_cast<optim::AdagradOptions*>(&a)) ||
         as(dynamic_cast<optim::AdamOptions*>(&a)) || as(dynamic_cast<optim::AdamWOptions*>(&a)) ||
         as(dynamic_cast<optim::LBFGSOptions*>(&a)) ||
         as(dynamic_cast<optim::RMSpropOptions*>(&a)) || as(dynamic_cast<optim::SGDOptions*>(&a));
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

OptimizerOptions& options_of(Optimizer& optimizer, std::size_t group) {
  return group == 0 ? optimizer.defaults() : optimizer.param_groups()[group - 1].options();
}

}  // namespace

// Keeps the options of the wrapper's and the wrapped optimizer's parameter groups equal: a
// scheduler may change either.
class OptionGroups {
 public:
  // Both must outlive this, and have the same groups; outside takes inside's options to the letter.
  // (Newer versions of LibTorch take an option that is as its kind has it by default for unset.)
  OptionGroups(Optimizer& inside, Optimizer& outside) : inside_(inside), outside_(outside) {
    for (std::size_t group = 0; group < inside.param_groups().size(); ++group)
      outside.param_groups()[group].set_options(inside.param_groups()[group].options().clone());
    note();
  }

  // Changes of one side's groups and defaults since the last time go to the other side; where both
  // have some, outside's. Options that are not of LibTorch's own kinds are kept equal in their
  // learning rate only, where they have one. Error for a group that was added.
  void meet() {
    for (const Optimizer* each : {&inside_, &outside_}) {
      if (each->param_groups().size() + 1 == last_.size()) continue;
      throw Error(
          "parallel: a DistributedOptimizer takes no further group of parameters: make it of an "
          "optimizer that has all of the module's from the beginning, frozen ones too");
    }
    for (std::size_t group = 0; group < last_.size(); ++group) {
      OptimizerOptions& inside = options_of(inside_, group);
      OptimizerOptions& outside = options_of(outside_, group);
      if (equal_options(inside, outside)) continue;
      if (equal_options(outside, *last_[group]))
        assign_options(outside, inside);
      else
        assign_options(inside, outside);
    }
    note();
  }

 private:
  void note() {
    last_.clear();
    for (std::size_t group = 0; group <= inside_.param_groups().size(); ++group)
      last_.push_back(options_of(inside_, group).clone());
  }

  torch::optim::Optimizer& inside_;
  torch::optim::Optimizer& outside_;
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> last_;  // defaults, then by group
};

}  // namespace kolo::parallel

namespace kolo {

namespace {

// Throws unless the optimizer has all trainable parameters of the module and none of others.
torch::optim::Optimizer& checked(torch::optim::Optimizer& optimizer,
                                 const torch::nn::Module& module) {
  std::set<const torch::TensorImpl*> optimized, known;
  std::vector<std::string> problems;
  for (const auto& parameter : module.parameters()) known.insert(parameter.unsafeGetTensorImpl());
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    for (const torch::Tensor& parameter : optimizer.param_groups()[group].params()) {
      optimized.insert(parameter.unsafeGetTensorImpl());
      if (known.contains(parameter.unsafeGetTensorImpl())) continue;
      problems.push_back(fmt::format("a tensor of [{}] in its group {} is not the module's",
                                     fmt::join(parameter.sizes(), ", "), group));
    }
  }
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad() && !optimized.contains(item.value().unsafeGetTensorImpl()))
      problems.push_back(fmt::format("it lacks {}", item.key()));
  }
  if (problems.empty()) return optimizer;
  throw Error(
      fmt::format("parallel: the optimizer doesn't fit the module: {}; make it from "
                  "module.parameters(), of the module that is given here",
                  fmt::join(problems, ", ")));
}

// Parameters of dense and of sparse gradients.
std::vector<torch::Tensor> averaged_parameters(const ParameterArena& arena) {
  auto parameters = arena.parameters();
  for (const auto& each : arena.excluded()) parameters.push_back(each.tensor);
  return parameters;
}

}  // namespace

DistributedOptimizer::DistributedOptimizer(const Communicator& communicator,
                                           const TrainedModules& modules,
                                           std::shared_ptr<torch::optim::Optimizer> optimizer,
                                           const DistributedOptimizerOptions& options)
    : Optimizer(
          checked(*parallel::given(optimizer, "DistributedOptimizer", "optimizer"),
                  modules.module())
              .param_groups(),
          parallel::given(optimizer, "DistributedOptimizer", "optimizer")->defaults().clone()),
      communicator_(communicator),
      modules_(modules),
      optimizer_(std::move(optimizer)),
      groups_(std::make_unique<parallel::OptionGroups>(*optimizer_, *this)),
      options_(options),
      reducer_(communicator, modules.module(), options.reducer) {
  if (!options.broadcast_parameters || !options.reducer.communicate) return;
  const auto ranks = reducer_.arena()->gradient_communicator(communicator);
  reducer_.arena()->broadcast_parameters(ranks);
  broadcast_outside_arena(ranks, modules.module());
}

DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::meet() const {
  groups_->meet();
}

torch::optim::Optimizer& DistributedOptimizer::inner() {
  meet();
  return *optimizer_;
}

std::vector<torch::optim::OptimizerParamGroup>& DistributedOptimizer::param_groups() {
  meet();
  return Optimizer::param_groups();
}

void DistributedOptimizer::save(torch::serialize::OutputArchive& archive) const {
  meet();
  optimizer_->save(archive);
}

void DistributedOptimizer::load(torch::serialize::InputArchive& archive) {
  meet();
  optimizer_->load(archive);
  meet();
}

void DistributedOptimizer::tell_rates() {
  std::vector<double> rates;
  for (const auto& group : optimizer_->param_groups())
    rates.push_back(parallel::rate_of(group.options()).value_or(0));
  reducer_.set_rates(std::move(rates));
}

void DistributedOptimizer::finish() {
  meet();
  tell_rates();
  if (!reducer_.has_averages()) reducer_.finish();
}

double DistributedOptimizer::clip_gradients(double maximum_norm) {
  finish();
  gradient_norm_ = clip_gradient_norm(averaged_parameters(*reducer_.arena()), maximum_norm);
  return *gradient_norm_;
}

void DistributedOptimizer::finish_gradients() {
  tell_rates();
  reducer_.take_averages();
  if (options_.clip_norm)
    gradient_norm_ =
        clip_gradient_norm(averaged_parameters(*reducer_.arena()), *options_.clip_norm);
}

torch::Tensor DistributedOptimizer::step(LossClosure closure) {
  meet();
  torch::Tensor result;
  if (closure) {
    result = optimizer_->step([&] {
      const torch::Tensor loss = closure();
      finish_gradients();
      return average_loss(options_.reducer.communicate ? communicator_ : Communicator::solo(),
                          loss);
    });
  } else {
    finish_gradients();
    result = optimizer_->step();
  }
  if (options_.broadcast_buffers) synchronize_buffers(communicator_, modules_.module());
  return result;
}

}  // namespace kolo
