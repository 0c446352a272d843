#include "kolo/parallel/sharded_optimizer.h"

#include <map>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

// Refuses optimizers that average: a loop written for torch::optim neither saves the history of
// rates nor switches to the average for validation.
std::shared_ptr<const FlatOptimizer> not_averaging(std::shared_ptr<const FlatOptimizer> algorithm) {
  if (!parallel::given(algorithm, "ShardedOptimizer", "algorithm")->for_use()) return algorithm;
  throw InputError(
      fmt::format("parallel: {} trains other parameters than those to use a network with, which an "
                  "optimizer of torch::optim can't tell apart; take TrainingStep, which has "
                  "to_evaluation(), or another optimizer",
                  algorithm->name()));
}

std::string skipped_name(const ParameterArena& arena, std::size_t parameter) {
  return arena.plan().parameters[parameter].name + ".skipped_steps";
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
  const auto ranks = arena_->gradient_communicator(communicator);
  arena_->broadcast_parameters(ranks);
  broadcast_outside_arena(ranks, modules.module());
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

std::vector<NamedTensor> ShardedOptimizer::gather_state() const {
  auto state = optimizer_.named_state();
  const auto& skipped = optimizer_.skipped_steps();
  for (std::size_t parameter = 0; parameter < skipped.size(); ++parameter) {
    if (skipped[parameter] == 0) continue;
    state.push_back(
        {skipped_name(*arena_, parameter), torch::full({}, skipped[parameter], torch::kLong)});
  }
  return state;
}

void ShardedOptimizer::load_state(std::span<const NamedTensor> whole, std::int64_t steps) {
  if (steps < 0) {
    throw Error(
        fmt::format("parallel: an optimizer's state after {} steps; expected 0 or more", steps));
  }
  std::map<std::string, torch::Tensor> given;
  for (const auto& item : whole) given.emplace(item.name, item.tensor);
  std::vector<std::int64_t> skipped;
  std::size_t expected = 0;
  for (std::size_t index = 0; index < arena_->parameters().size(); ++index) {
    const auto found = given.find(skipped_name(*arena_, index));
    skipped.push_back(found == given.end() ? 0 : found->second.item<std::int64_t>());
    if (found != given.end()) given.erase(found);
    const torch::Tensor& parameter = arena_->parameters()[index];
    for (const auto& name : optimizer_.algorithm().state_names()) {
      const auto full = fmt::format("{}.{}", arena_->plan().parameters[index].name, name);
      const auto state = given.find(full);
      ++expected;
      if (state != given.end() && state->second.sizes() == parameter.sizes() &&
          state->second.scalar_type() == parameter.scalar_type())
        continue;
      throw Error(fmt::format("parallel: the state to load has no {} of {} [{}]", full,
                              c10::toString(parameter.scalar_type()),
                              fmt::join(parameter.sizes(), ", ")));
    }
  }
  if (given.size() != expected) {
    throw Error(fmt::format("parallel: a state of {} tensors for {}; expected {}", given.size(),
                            optimizer_.algorithm().name(), expected));
  }
  optimizer_.scatter_state(communicator_, skipped, [&](const auto& all) {
    for (const auto& each : all) torch::Tensor(each.tensor).copy_(given.at(each.name));
  });
  steps_ = steps;
}

void ShardedOptimizer::save(torch::serialize::OutputArchive&) const {
  throw Error(archive_advice);
}

void ShardedOptimizer::load(torch::serialize::InputArchive&) {
  throw Error(archive_advice);
}

}  // namespace kolo
