#include "kolo/parallel/arena_optimizer.h"

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "parallel/optimizers/bucket_runs.h"

namespace kolo {

namespace {

template <typename T>
std::span<T> span_of(const torch::Tensor& flat, const parallel::BucketRun& run) {
  return {flat.data_ptr<T>() + run.offset, static_cast<std::size_t>(run.count)};
}

}  // namespace

ArenaOptimizer::ArenaOptimizer(std::shared_ptr<const ParameterArena> arena,
                               std::shared_ptr<const FlatOptimizer> optimizer)
    : arena_(std::move(arena)), version_(arena_->version()), optimizer_(std::move(optimizer)) {
  for (const auto& parameter : arena_->plan().parameters) {
    if (parameter.type == DataType::float32 || parameter.type == DataType::float64) continue;
    throw Error(
        fmt::format("parallel: {} can't be trained by {}: parameters must be float32 or float64",
                    parameter.describe(), optimizer_->name()));
  }
  for (std::size_t slot = 0; slot < optimizer_->state_names().size(); ++slot) {
    state_.push_back(arena_->allocate_like_parameters());
    const double initial = optimizer_->initial_state(slot);
    if (initial == 0) continue;  // as it is
    for (const torch::Tensor& flat : state_.back()) flat.fill_(initial);
  }
}

void ArenaOptimizer::require_same_plan() const {
  if (arena_->version() == version_) return;
  throw Error(
      fmt::format("parallel: the arena's buckets were rebuilt after {} was made from it; make the "
                  "reducer without rebuild_buckets, or the optimizer behind the first step",
                  optimizer_->name()));
}

void ArenaOptimizer::update(std::size_t bucket, double learning_rate, std::int64_t step) {
  require_same_plan();
  if (arena_->plan().buckets[bucket].type == DataType::float64)
    update_typed<double>(bucket, learning_rate, step);
  else
    update_typed<float>(bucket, learning_rate, step);
}

template <typename T>
void ArenaOptimizer::update_typed(std::size_t bucket, double learning_rate, std::int64_t step) {
  const torch::Tensor& parameters = arena_->flat_parameters(bucket);
  const torch::Tensor& gradients = arena_->flat_gradients(bucket);
  for (const auto& run :
       parallel::runs_of(arena_->plan(), bucket, *optimizer_, 0, parameters.numel())) {
    FlatSlice<T> slice;
    slice.parameters = span_of<T>(parameters, run);
    slice.gradients = span_of<T>(gradients, run);
    for (std::size_t slot = 0; slot < state_.size(); ++slot)
      slice.state[slot] = span_of<T>(state_[slot][bucket], run);
    slice.is_vector = run.is_vector;
    optimizer_->update(slice, learning_rate, step);
  }
}

std::vector<ArenaOptimizer::NamedState> ArenaOptimizer::named_state() const {
  require_same_plan();
  std::vector<NamedState> named;
  const auto names = optimizer_->state_names();
  for (std::size_t parameter = 0; parameter < arena_->parameters().size(); ++parameter) {
    for (std::size_t slot = 0; slot < state_.size(); ++slot) {
      named.push_back({fmt::format("{}.{}", arena_->plan().parameters[parameter].name, names[slot]),
                       arena_->view_of(parameter, state_[slot])});
    }
  }
  return named;
}

}  // namespace kolo
