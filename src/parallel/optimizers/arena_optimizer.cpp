#include "kolo/parallel/arena_optimizer.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"
#include "kolo/parallel/parameter_arena.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/optimizers/bucket_runs.h"
#include "parallel/optimizers/shared_step.h"
#include "parallel/optimizers/tensor_steps.h"

namespace kolo {

namespace {

// 128 KiB of parameters, which with gradients and state fit a second-level cache.
constexpr std::int64_t published_elements = std::int64_t{1} << 15;

template <typename T>
std::span<T> span_of(const torch::Tensor& flat, const parallel::BucketRun& run) {
  return {flat.data_ptr<T>() + run.offset, static_cast<std::size_t>(run.count)};
}

}  // namespace

bool is_worth_sharing(const FlatOptimizer& optimizer, std::int64_t parameter_bytes,
                      const StepSharing& sharing) {
  return sharing.enabled && !optimizer.is_layerwise() && parameter_bytes >= sharing.smallest_bytes;
}

ArenaOptimizer::ArenaOptimizer(std::shared_ptr<ParameterArena> arena,
                               std::shared_ptr<const FlatOptimizer> optimizer)
    : arena_(std::move(arena)),
      version_(arena_->version()),
      optimizer_(std::move(optimizer)),
      groups_(
          std::make_unique<parallel::ParameterGroups>(arena_->parameters().size(), optimizer_)) {
  require_trainable();
  allocate_state();
}

ArenaOptimizer::ArenaOptimizer(const Communicator& communicator,
                               const std::shared_ptr<ParameterArena>& arena,
                               std::shared_ptr<const FlatOptimizer> optimizer,
                               const StepSharing& sharing)
    : arena_(arena),
      version_(arena->version()),
      optimizer_(std::move(optimizer)),
      groups_(
          std::make_unique<parallel::ParameterGroups>(arena_->parameters().size(), optimizer_)) {
  require_trainable();
  const auto& topology = communicator.topology();
  if (arena->device().is_cpu() && topology.nodes < topology.size &&
      is_worth_sharing(*optimizer_, arena->plan().total_bytes, sharing))
    share_steps(communicator, *arena, sharing.one_copy);
  if (!shared_) allocate_state();
}

ArenaOptimizer::ArenaOptimizer(ArenaOptimizer&&) noexcept = default;
ArenaOptimizer& ArenaOptimizer::operator=(ArenaOptimizer&&) noexcept = default;
ArenaOptimizer::~ArenaOptimizer() = default;

void ArenaOptimizer::require_trainable() const {
  for (const auto& parameter : arena_->plan().parameters) {
    if (parameter.type == DataType::float32 || parameter.type == DataType::float64) continue;
    throw Error(
        fmt::format("parallel: {} can't be trained by {}: parameters must be float32 or float64",
                    parameter.describe(), optimizer_->name()));
  }
}

void ArenaOptimizer::allocate_state() {
  state_.clear();
  if (!arena_->device().is_cpu()) on_device_ = std::make_unique<parallel::TensorSteps>();
  for (std::size_t slot = 0; slot < optimizer_->state_names().size(); ++slot) {
    state_.push_back(arena_->allocate_like_parameters());
    const double initial = optimizer_->initial_state(slot);
    if (initial == 0) continue;  // as it is
    for (const torch::Tensor& flat : state_.back()) flat.fill_(initial);
  }
}

// On all nodes or, where one of them has no room, on none: a rank's calls don't depend on it.
void ArenaOptimizer::share_steps(const Communicator& communicator, ParameterArena& arena,
                                 bool one_copy) {
  if (auto shared = parallel::SharedStep::make(communicator, arena, one_copy))
    shared_ = std::make_unique<parallel::SharedStep>(*std::move(shared));
  bool has_room = shared_ != nullptr;
  for (std::size_t slot = 0; has_room && slot < optimizer_->state_names().size(); ++slot) {
    auto flat = shared_->allocate_like_parameters(optimizer_->initial_state(slot));
    has_room = flat.has_value();
    if (has_room) state_.push_back(*std::move(flat));
  }
  if (all_reduce_value(communicator, has_room ? 1 : 0, ReduceOp::min) == 0) return shared_.reset();
  shared_->take_parameters(arena);
}

void ArenaOptimizer::require_same_plan() const {
  if (arena_->version() == version_) return;
  throw Error(
      fmt::format("parallel: the arena's buckets were rebuilt after {} was made from it; make the "
                  "reducer without rebuild_buckets, or the optimizer after the first step",
                  optimizer_->name()));
}

void ArenaOptimizer::update(std::size_t bucket, double learning_rate, std::int64_t step,
                            const GradientUse& use) {
  require_same_plan();
  if (!trained_.empty()) {
    throw Error(fmt::format(
        "parallel: a step of {} while the network has the parameters to be used with; call "
        "to_training() first",
        optimizer_->name()));
  }
  if (!is_in_step_) begin_step();
  if (std::exchange(noted_step_, step) != step) rate_ = rates_.note(learning_rate);
  rate_.learning_rate = learning_rate;
  groups_->begin(*arena_, bucket);
  if (on_device_)
    update_on_device(bucket, step, use);
  else if (arena_->plan().buckets[bucket].type == DataType::float64)
    update_typed<double>(bucket, step);
  else
    update_typed<float>(bucket, step);
}

void ArenaOptimizer::update_on_device(std::size_t bucket, std::int64_t step,
                                      const GradientUse& use) {
  const torch::NoGradGuard no_gradient;
  const auto count = arena_->plan().buckets[bucket].count;
  for (const auto& run : groups_->runs(*arena_, bucket, step, 0, count)) {
    const auto part = [&](const torch::Tensor& flat) {
      return flat.narrow(0, run.offset, run.count);
    };
    parallel::TensorSlice slice{part(arena_->flat_parameters(bucket)),
                                part(arena_->flat_gradients(bucket)),
                                {},
                                run.is_vector};
    for (const auto& buckets : state_) slice.state.push_back(part(buckets[bucket]));
    on_device_->update(*optimizer_, slice, rate_, run.step, use);
  }
}

void ArenaOptimizer::prepare(double learning_rate, std::int64_t step) {
  const auto steps = step - std::exchange(noted_step_, step);
  if (steps == 0) return;
  rate_ = rates_.note(learning_rate);
  if (on_device_) on_device_->advance(rate_, steps);
}

void ArenaOptimizer::begin_step() {
  // The parameters may have got other memory since the gradients were averaged.
  if (const std::string changes = arena_->take_back_parameters(); !changes.empty())
    throw Error("parallel: " + changes);
  if (shared_) shared_->begin();
  is_in_step_ = true;
}

template <typename T>
void ArenaOptimizer::update_typed(std::size_t bucket, std::int64_t step) {
  const auto own = shared_ ? shared_->own_part(bucket)
                           : parallel::SharedStep::Part{0, arena_->plan().buckets[bucket].count};
  for (const auto& run : groups_->runs(*arena_, bucket, step, own.begin, own.end)) {
    if (!shared_) {
      optimizer_->update(slice_of<T>(bucket, run), rate_, run.step);
      continue;
    }
    // Piece by piece, so that what goes to the other ranks is in the cache still.
    for (std::int64_t done = 0; done < run.count; done += published_elements) {
      auto piece = run;
      piece.offset += done;
      piece.count = std::min(published_elements, run.count - done);
      optimizer_->update(slice_of<T>(bucket, piece), rate_, run.step);
      shared_->publish(bucket, piece.offset, piece.offset + piece.count);
    }
  }
}

template <typename T>
FlatSlice<T> ArenaOptimizer::slice_of(std::size_t bucket, const parallel::BucketRun& run) const {
  FlatSlice<T> slice;
  slice.parameters = span_of<T>(arena_->flat_parameters(bucket), run);
  slice.gradients = span_of<T>(arena_->flat_gradients(bucket), run);
  for (std::size_t slot = 0; slot < state_.size(); ++slot)
    slice.state[slot] = span_of<T>(state_[slot][bucket], run);
  slice.is_vector = run.is_vector;
  return slice;
}

void ArenaOptimizer::finish() {
  if (shared_ && is_in_step_) shared_->end();
  is_in_step_ = false;
}

template <typename Change>
void ArenaOptimizer::change_parameters(const Change& change) {
  const torch::NoGradGuard no_gradient;
  require_same_plan();
  begin_step();
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    const auto own = shared_ ? shared_->own_part(bucket)
                             : parallel::SharedStep::Part{0, arena_->plan().buckets[bucket].count};
    change(bucket, arena_->flat_parameters(bucket).slice(0, own.begin, own.end), own.begin);
    if (shared_) shared_->publish(bucket, own.begin, own.end);
  }
  finish();
}

// Product and difference one after the other: LibTorch fuses them in whole vectors only, so that
// the bits would depend on how many ranks share a bucket.
void ArenaOptimizer::to_evaluation() {
  const auto use = optimizer_->for_use();
  if (!use || !trained_.empty()) return;
  change_parameters([&](std::size_t bucket, torch::Tensor part, std::int64_t begin) {
    trained_.push_back(part.clone());
    part.sub_(state_[use->place][bucket].narrow(0, begin, part.numel()).mul(use->factor));
  });
}

void ArenaOptimizer::to_training() {
  if (trained_.empty()) return;
  change_parameters([&](std::size_t bucket, torch::Tensor part, std::int64_t /*begin*/) {
    part.copy_(trained_[bucket]);
  });
  trained_.clear();
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

std::vector<std::int64_t> ArenaOptimizer::skipped_steps() const {
  return {groups_->skipped().begin(), groups_->skipped().end()};
}

void ArenaOptimizer::set_skipped_steps(std::span<const std::int64_t> counts) {
  if (counts.size() != groups_->skipped().size()) {
    throw Error(fmt::format("parallel: skipped steps of {} parameters for {}; the arena has {}",
                            counts.size(), optimizer_->name(), groups_->skipped().size()));
  }
  std::copy(counts.begin(), counts.end(), groups_->skipped().begin());
}

// Where steps are shared, one rank a node takes part: what it writes is the whole node's.
void ArenaOptimizer::broadcast_state(const Communicator& communicator) const {
  require_same_plan();
  const bool takes_part = !shared_ || communicator.topology().local_rank == 0;
  const auto holders = shared_ ? communicator.split(takes_part ? 0 : -1) : communicator;
  for (const auto& buckets : state_) {
    for (const torch::Tensor& flat : buckets) {
      if (takes_part) holders->broadcast(buffer_of(flat));
    }
  }
  communicator.broadcast(groups_->skipped());
  communicator.barrier();
}

}  // namespace kolo
