#include "kolo/parallel/sharded_optimizer.h"

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

torch::optim::OptimizerParamGroup group_of(const torch::nn::Module& module, double rate) {
  std::vector<torch::Tensor> trainable;
  for (const torch::Tensor& parameter : module.parameters()) {
    if (parameter.requires_grad()) trainable.push_back(parameter);
  }
  return {trainable, std::make_unique<ShardedGroupOptions>(rate)};
}

// An average's history of rates is no part of a state of torch::optim, and nobody would ask for it.
std::shared_ptr<const FlatOptimizer> not_averaging(std::shared_ptr<const FlatOptimizer> algorithm) {
  if (!algorithm->for_use()) return algorithm;
  throw InputError(
      fmt::format("parallel: {} trains other parameters than those to use a network with, which an "
                  "optimizer of torch::optim can't tell apart; take TrainingStep, which has "
                  "to_evaluation(), or another optimizer",
                  algorithm->name()));
}

constexpr auto archive_advice =
    "parallel: a sharded optimizer can't be written to or read from an archive: each rank has a "
    "part of its state; call gather_state() on all ranks, save what it gives on one, and give that "
    "to load_state() on all";

}  // namespace

ShardedOptimizer::ShardedOptimizer(const Communicator& communicator, const TrainedModules& modules,
                                   std::shared_ptr<const FlatOptimizer> algorithm,
                                   const ShardedOptimizerOptions& options)
    : Optimizer({group_of(modules.module(), options.learning_rate)},
                std::make_unique<ShardedGroupOptions>(options.learning_rate)),
      communicator_(communicator),
      modules_(modules),
      arena_(std::make_shared<ParameterArena>(communicator, modules.module(), options.buckets)),
      optimizer_(communicator, arena_, not_averaging(std::move(algorithm))),
      reducer_(communicator, arena_,
               ReducerOptions{.unused_parameters = options.unused_parameters,
                              .rebuild_buckets = false,
                              .hook = optimizer_.gradient_hook()}) {
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
  if (param_groups().size() != 1)
    throw Error("parallel: a sharded optimizer has one group of parameters; none can be added");
  const double learning_rate = param_groups().front().options().get_lr();
  reducer_.set_rates({learning_rate});
  const std::int64_t step = steps_ + 1;
  const bool has_averages = reducer_.has_averages();
  if (has_averages) reducer_.take_averages();
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    if (!has_averages) reducer_.wait(bucket);
    optimizer_.update(bucket, learning_rate, step);
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
