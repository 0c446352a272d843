#include "kolo/parallel/arena_optimizer.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/optimizers/shared_step.h"

namespace kolo {

namespace {

// 128 KiB of parameters, which with gradients and state fit a second-level cache.
constexpr std::int64_t cached_elements = std::int64_t{1} << 15;

}  // namespace

bool is_worth_sharing(const FlatOptimizer& optimizer, std::int64_t parameter_bytes,
                      const StepSharing& sharing) {
  return sharing.enabled && !optimizer.is_layerwise() && parameter_bytes >= sharing.smallest_bytes;
}

ArenaOptimizer::ArenaOptimizer(std::shared_ptr<ParameterArena> arena,
                               std::shared_ptr<const FlatOptimizer> optimizer)
    : BucketOptimizer(arena, {optimizer}, std::vector<std::size_t>(arena->parameters().size(), 0),
                      optimizer->name()) {
  allocate_state();
}

ArenaOptimizer::ArenaOptimizer(const Communicator& communicator,
                               const std::shared_ptr<ParameterArena>& arena,
                               std::shared_ptr<const FlatOptimizer> optimizer,
                               const StepSharing& sharing)
    : BucketOptimizer(arena, {optimizer}, std::vector<std::size_t>(arena->parameters().size(), 0),
                      optimizer->name()) {
  const auto& topology = communicator.topology();
  if (arena->device().is_cpu() && topology.nodes < topology.size &&
      is_worth_sharing(*optimizer, arena->plan().total_bytes, sharing))
    share_steps(communicator, sharing.one_copy);
  if (!shared_) allocate_state();
}

ArenaOptimizer::~ArenaOptimizer() = default;

void ArenaOptimizer::allocate_state() {
  state_.clear();
  for (std::size_t slot = 0; slot < algorithm().state_names().size(); ++slot) {
    state_.push_back(arena().allocate_like_parameters());
    const double initial = algorithm().initial_state(slot);
    if (initial == 0) continue;  // as it is
    for (const torch::Tensor& flat : state_.back()) flat.fill_(initial);
  }
}

// On all nodes or, where one of them has no room, on none: a rank's calls don't depend on it.
void ArenaOptimizer::share_steps(const Communicator& communicator, bool one_copy) {
  if (auto shared = parallel::SharedStep::make(communicator, arena(), one_copy))
    shared_ = std::make_unique<parallel::SharedStep>(*std::move(shared));
  bool has_room = shared_ != nullptr;
  for (std::size_t slot = 0; has_room && slot < algorithm().state_names().size(); ++slot) {
    auto flat = shared_->allocate_like_parameters(algorithm().initial_state(slot));
    has_room = flat.has_value();
    if (has_room) state_.push_back(*std::move(flat));
  }
  if (all_reduce_value(communicator, has_room ? 1 : 0, ReduceOp::min) == 0) return shared_.reset();
  shared_->take_parameters(arena());
  published_elements_ = cached_elements;
}

std::vector<BucketOptimizer::Own> ArenaOptimizer::own_parts(std::size_t bucket) const {
  if (!shared_) return {{0, arena().plan().buckets[bucket].count, 0}};
  const auto [begin, end] = shared_->own_part(bucket);
  return {{begin, end, begin}};
}

void ArenaOptimizer::begin_step() {
  // The parameters may have got other memory since the gradients were averaged.
  if (const std::string changes = arena().take_back_parameters(); !changes.empty())
    throw Error("parallel: " + changes);
  if (shared_) shared_->begin();
}

void ArenaOptimizer::publish(std::size_t bucket, std::int64_t begin, std::int64_t end) {
  if (shared_) shared_->publish(bucket, begin, end);
}

void ArenaOptimizer::end_step() {
  if (shared_) shared_->end();
}

std::vector<BucketOptimizer::NamedState> ArenaOptimizer::named_state(
    std::optional<int> /*only*/) const {
  require_same_plan();
  return named(state_);
}

void ArenaOptimizer::scatter_state(const Communicator& ranks,
                                   std::span<const std::int64_t> skipped_steps,
                                   const FillState& fill) {
  if (ranks.rank() == 0) fill(named_state());
  set_skipped_steps(skipped_steps);
  broadcast_state(ranks);
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
  communicator.broadcast(skipped());
  communicator.barrier();
}

}  // namespace kolo
