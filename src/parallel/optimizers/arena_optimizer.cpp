#include "kolo/parallel/arena_optimizer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"
#include "kolo/parallel/parameter_arena.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo::parallel {

// The ranks of a node that share the steps of an optimizer: each updates its part of every bucket
// in the node's one copy of the parameters, and writes its part of the node's one state.
//
// All ranks of the node call the same methods in the same order. A step: begin(), updates, end().
// Nobody may read parameters between begin() and end() but for the part that is its own.
class SharedStep {
 public:
  // Nothing where the ranks of this node can't share memory. Collective over `all`.
  [[nodiscard]] static std::optional<SharedStep> make(const Communicator& all,
                                                      const ParameterArena& arena) {
    auto node = all.split(all.topology().node);
    SharedStep step(arena.gradient_communicator(all), *std::move(node), arena);
    step.parameters_ = step.allocate();
    if (!step.parameters_) return std::nullopt;
    (void)step.filled(step.parameters_, 0);
    return step;
  }

  // Moves the arena's parameters to where steps update them. Collective over the node.
  void take_parameters(ParameterArena& arena) const { arena.share_parameters(node_, parameters_); }

  // Elements of a bucket.
  struct Part {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  [[nodiscard]] Part own_part(std::size_t bucket) const {
    // Cut at cache lines, so that no two ranks write the same one.
    constexpr std::int64_t line = 64;
    const std::int64_t count = arena_.plan().buckets[bucket].count;
    const std::int64_t lines = (count + line - 1) / line;
    const auto cut = [&](std::int64_t rank) {
      return std::min(count, lines * rank / node_.size() * line);
    };
    return {cut(node_.rank()), cut(node_.rank() + 1)};
  }

  // Flat tensors laid out like the parameters and filled with a value, one memory for the node, of
  // which a rank's own part lies near it; nothing where there is no room for it (on all ranks of
  // the node). Collective.
  [[nodiscard]] std::optional<std::vector<torch::Tensor>> allocate_like_parameters(
      double value) const {
    const auto memory = allocate();
    if (!memory) return std::nullopt;
    return filled(memory, value);
  }

  // Blocks until all ranks of the node have come: their backward passes are done, and nobody needs
  // the old parameters any more. Error on all ranks where one of any node has joined.
  // All ranks refuse, those of nodes without a joined one too: they would step alone.
  void begin() const {
    constexpr auto need_of_all =
        "parallel: a shared step can't do without a rank that has joined: nobody else of its node "
        "updates its part of the parameters. Give all ranks as many batches (TorchSampler does), "
        "or "
        "make the ArenaOptimizer without StepSharing where they join";
    all_.require_all_ranks(need_of_all);
    node_.barrier({.name = "shared step begins"});
    node_.require_all_ranks(need_of_all);
  }

  // Blocks until all ranks of the node have updated their parts.
  void end() const { node_.barrier({.name = "shared step ends"}); }

 private:
  SharedStep(Communicator all, Communicator node, const ParameterArena& arena)
      : all_(std::move(all)), node_(std::move(node)), arena_(arena) {}

  // One memory for the node, as large as the parameters; nothing where its ranks can't share any.
  // (One of several nodes may have a single rank, which shares with nobody.)
  [[nodiscard]] std::shared_ptr<std::byte> allocate() const {
    const auto bytes = narrow<std::size_t>(arena_.plan().total_bytes);
    return node_.size() == 1 ? node_.allocate(bytes) : node_.allocate_for_node(bytes);
  }

  // Flat tensors in memory of the whole node's. Each rank writes its part, so that its room is
  // taken before more is asked for, and lies near whoever updates it.
  [[nodiscard]] std::vector<torch::Tensor> filled(const std::shared_ptr<std::byte>& memory,
                                                  double value) const {
    auto flat = arena_.flat_views(memory);
    for (std::size_t bucket = 0; bucket < flat.size(); ++bucket) {
      const auto [begin, end] = own_part(bucket);
      flat[bucket].slice(0, begin, end).fill_(value);
    }
    node_.barrier({.name = "shared state"});
    return flat;
  }

  Communicator all_;  // on which the gradients have come
  Communicator node_;
  const ParameterArena& arena_;
  std::shared_ptr<std::byte> parameters_;  // the node's
};

}  // namespace kolo::parallel

namespace kolo {

bool is_worth_sharing(const FlatOptimizer& optimizer, std::int64_t parameter_bytes,
                      const StepSharing& sharing) {
  return sharing.enabled && !optimizer.is_layerwise() && parameter_bytes >= sharing.smallest_bytes;
}

ArenaOptimizer::ArenaOptimizer(std::shared_ptr<ParameterArena> arena,
                               std::shared_ptr<const FlatOptimizer> optimizer)
    : BucketOptimizer(std::move(arena), optimizer, optimizer->name()) {
  allocate_state();
}

ArenaOptimizer::ArenaOptimizer(const Communicator& communicator,
                               const std::shared_ptr<ParameterArena>& arena,
                               std::shared_ptr<const FlatOptimizer> optimizer,
                               const StepSharing& sharing)
    : BucketOptimizer(arena, optimizer, optimizer->name()) {
  const auto& topology = communicator.topology();
  if (arena->device().is_cpu() && topology.nodes < topology.size &&
      is_worth_sharing(*optimizer, arena->plan().total_bytes, sharing))
    share_steps(communicator);
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

// Shares on all nodes or, where one of them has no room, on none, so that all make the same calls.
void ArenaOptimizer::share_steps(const Communicator& communicator) {
  if (auto shared = parallel::SharedStep::make(communicator, arena()))
    shared_ = std::make_unique<parallel::SharedStep>(*std::move(shared));
  bool has_room = shared_ != nullptr;
  for (std::size_t slot = 0; has_room && slot < algorithm().state_names().size(); ++slot) {
    auto flat = shared_->allocate_like_parameters(algorithm().initial_state(slot));
    has_room = flat.has_value();
    if (has_room) state_.push_back(*std::move(flat));
  }
  if (all_reduce_value(communicator, has_room ? 1 : 0, ReduceOp::min) == 0) return shared_.reset();
  shared_->take_parameters(arena());
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

void ArenaOptimizer::end_step() {
  if (shared_) shared_->end();
}

std::vector<BucketOptimizer::NamedState> ArenaOptimizer::named_state(
    std::optional<int> /*only*/) const {
  require_same_plan();
  return named(state_);
}

// Where steps are shared one rank a node takes part, since the state is the whole node's.
void ArenaOptimizer::scatter_state(const Communicator& ranks,
                                   std::span<const std::int64_t> skipped_steps,
                                   const FillState& fill) {
  if (ranks.rank() == 0) fill(named_state());
  require_same_plan();
  set_skipped_steps(skipped_steps);
  const bool takes_part = !shared_ || ranks.topology().local_rank == 0;
  const auto holders = shared_ ? ranks.split(takes_part ? 0 : -1) : ranks;
  for (const auto& buckets : state_) {
    for (const torch::Tensor& flat : buckets) {
      if (takes_part) holders->broadcast(buffer_of(flat));
    }
  }
  ranks.barrier();
}

}  // namespace kolo
