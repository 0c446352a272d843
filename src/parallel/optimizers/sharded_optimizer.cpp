#include "kolo/parallel/sharded_optimizer.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "parallel/optimizers/torch_optimizers.h"

namespace kolo {

namespace {

std::vector<torch::Tensor> trainable(const torch::nn::Module& module) {
  std::vector<torch::Tensor> found;
  for (const torch::Tensor& parameter : module.parameters()) {
    if (parameter.requires_grad()) found.push_back(parameter);
  }
  return found;
}

const ShardedGroup& first_of(const std::vector<ShardedGroup>& groups) {
  if (groups.empty())
    throw InputError("parallel: a sharded optimizer without groups; expected one or more");
  return groups.front();
}

std::vector<torch::optim::OptimizerParamGroup> param_groups_of(
    const std::vector<ShardedGroup>& groups) {
  std::vector<torch::optim::OptimizerParamGroup> result;
  for (const ShardedGroup& group : groups) {
    result.emplace_back(group.parameters,
                        std::make_unique<ShardedGroupOptions>(group.learning_rate));
  }
  return result;
}

std::vector<std::shared_ptr<const FlatOptimizer>> algorithms_of(
    const std::vector<ShardedGroup>& groups) {
  std::vector<std::shared_ptr<const FlatOptimizer>> algorithms;
  for (const ShardedGroup& group : groups) {
    // Its history of rates is no part of a state of torch::optim, and nobody would ask for them.
    if (group.algorithm->for_use()) {
      throw InputError(fmt::format(
          "parallel: {} trains other parameters than those to use a network with, which an "
          "optimizer of torch::optim can't tell apart; take TrainingStep, which has "
          "to_evaluation(), or another optimizer",
          group.algorithm->name()));
    }
    algorithms.push_back(group.algorithm);
  }
  return algorithms;
}

// The group of each of the arena's parameters.
std::vector<std::size_t> group_by_parameter(const ParameterArena& arena,
                                            const std::vector<ShardedGroup>& groups) {
  std::map<const torch::TensorImpl*, std::size_t> group_of;
  std::vector<std::string> problems;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (const torch::Tensor& parameter : groups[group].parameters) {
      // In one group a parameter may be listed under several names.
      if (group_of.emplace(parameter.unsafeGetTensorImpl(), group).first->second != group) {
        problems.push_back(fmt::format("a tensor of [{}] in group {} is in another one too",
                                       fmt::join(parameter.sizes(), ", "), group));
      }
    }
  }
  std::vector<std::size_t> result;
  for (std::size_t index = 0; index < arena.parameters().size(); ++index) {
    const auto found = group_of.find(arena.parameters()[index].unsafeGetTensorImpl());
    if (found == group_of.end())
      problems.push_back(fmt::format("{} is in none", arena.plan().parameters[index].name));
    else
      result.push_back(found->second);
    if (found != group_of.end()) group_of.erase(found);
  }
  for (const auto& each : arena.frozen()) group_of.erase(each.tensor.unsafeGetTensorImpl());
  for (const auto& [tensor, group] : group_of)
    problems.push_back(fmt::format("a tensor in group {} is not the module's", group));
  if (problems.empty()) return result;
  throw InputError(
      fmt::format("parallel: a sharded optimizer's groups: {}; every trainable parameter of the "
                  "module must be in one of them, once",
                  fmt::join(problems, ", ")));
}

constexpr auto archive_advice =
    "parallel: a sharded optimizer can't be written to or read from an archive: each rank has a "
    "part of its state; call gather_state() on all ranks, save what it gives on one, and give that "
    "to load_state() on all";

}  // namespace

ShardedOptimizer::ShardedOptimizer(const Communicator& communicator, const TrainedModules& modules,
                                   std::shared_ptr<const FlatOptimizer> algorithm,
                                   const ShardedOptimizerOptions& options)
    : ShardedOptimizer(communicator, modules,
                       std::vector<ShardedGroup>{{trainable(modules.module()), std::move(algorithm),
                                                  options.learning_rate}},
                       options) {}

ShardedOptimizer::ShardedOptimizer(const Communicator& communicator, const TrainedModules& modules,
                                   const std::vector<ShardedGroup>& groups,
                                   const ShardedOptimizerOptions& options)
    : Optimizer(param_groups_of(groups),
                std::make_unique<ShardedGroupOptions>(first_of(groups).learning_rate)),
      communicator_(communicator),
      modules_(modules),
      arena_(std::make_shared<ParameterArena>(communicator, modules.module(), options.buckets)),
      optimizer_(communicator, arena_, algorithms_of(groups), group_by_parameter(*arena_, groups)),
      reducer_(communicator, arena_,
               ReducerOptions{.unused_parameters = options.unused_parameters,
                              .rebuild_buckets = false,
                              .hook = optimizer_.gradient_hook()}) {
  take_options(*this, param_groups_of(groups));
  if (!options.broadcast_parameters) return;
  arena_->broadcast_parameters(communicator);
  broadcast_outside_arena(communicator, modules.module());
}

void ShardedOptimizer::finish() {
  if (!reducer_.has_averages()) reducer_.finish();
}

double ShardedOptimizer::clip_gradients(double maximum_norm) {
  finish();
  return optimizer_.clip_gradients(maximum_norm);
}

torch::Tensor ShardedOptimizer::step(LossClosure closure) {
  torch::Tensor loss;
  if (closure) {
    const torch::AutoGradMode with_gradient(true);
    loss = average_loss(communicator_, closure());
  }
  std::vector<double> learning_rates;
  for (const auto& group : param_groups()) learning_rates.push_back(group.options().get_lr());
  reducer_.set_rates(learning_rates);
  const std::int64_t step = steps_ + 1;
  const bool has_averages = reducer_.has_averages();
  if (has_averages) reducer_.take_averages();
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    if (!has_averages) reducer_.wait(bucket);
    optimizer_.update(bucket, learning_rates, step);
  }
  if (!has_averages) reducer_.take_averages();
  optimizer_.finish();
  steps_ = step;
  return loss;
}

std::vector<ShardedArenaOptimizer::NamedState> ShardedOptimizer::gather_state() const {
  return optimizer_.gather_state();
}

void ShardedOptimizer::load_state(std::span<const ShardedArenaOptimizer::NamedState> whole,
                                  std::int64_t steps) {
  if (steps < 0) {
    throw Error(
        fmt::format("parallel: an optimizer's state after {} steps; expected 0 or more", steps));
  }
  optimizer_.load_state(whole);
  steps_ = steps;
}

void ShardedOptimizer::save(torch::serialize::OutputArchive&) const {
  throw Error(archive_advice);
}

void ShardedOptimizer::load(torch::serialize::InputArchive&) {
  throw Error(archive_advice);
}

}  // namespace kolo
