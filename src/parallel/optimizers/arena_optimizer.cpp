#include "kolo/parallel/arena_optimizer.h"

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

constexpr auto need_of_all_ranks =
    "parallel: a shared step can't do without a rank that has joined: nobody else of its node "
    "updates its part of the parameters. Give all ranks as many batches (TorchSampler does), or "
    "make the ArenaOptimizer without StepSharing where they join";

// One memory for the node, as large as the parameters and filled with a value, each rank's part
// near it; null, on all ranks of the node, where they can't share any. (One of several nodes may
// have a single rank, which shares with nobody.) Collective.
std::shared_ptr<std::byte> shared_memory(const Communicator& node, const ParameterArena& arena,
                                         double value) {
  const auto bytes = narrow<std::size_t>(arena.plan().total_bytes);
  const auto memory = node.size() == 1 ? node.allocate(bytes) : node.allocate_for_node(bytes);
  if (!memory) return nullptr;
  const auto flat = arena.flat_views(memory);
  for (std::size_t bucket = 0; bucket < flat.size(); ++bucket) {
    const auto [begin, end] = parallel::slice_of(flat[bucket].numel(), node.size(), node.rank());
    flat[bucket].slice(0, begin, end).fill_(value);
  }
  node.barrier({.name = "shared state"});
  return memory;
}

}  // namespace

bool is_worth_sharing(const FlatOptimizer& optimizer, std::int64_t parameter_bytes,
                      const StepSharing& sharing) {
  return sharing.enabled && !optimizer.is_layerwise() && parameter_bytes >= sharing.smallest_bytes;
}

ArenaOptimizer::ArenaOptimizer(std::shared_ptr<ParameterArena> arena,
                               std::shared_ptr<const FlatOptimizer> optimizer)
    : BucketOptimizer(std::move(arena), optimizer,
                      parallel::given(optimizer, "ArenaOptimizer", "optimizer")->name()) {
  allocate_state();
}

ArenaOptimizer::ArenaOptimizer(const Communicator& communicator,
                               const std::shared_ptr<ParameterArena>& arena,
                               std::shared_ptr<const FlatOptimizer> optimizer,
                               const StepSharing& sharing)
    : BucketOptimizer(arena, optimizer,
                      parallel::given(optimizer, "ArenaOptimizer", "optimizer")->name()) {
  const auto& topology = communicator.topology();
  if (arena->device().is_cpu() && topology.nodes < topology.size &&
      is_worth_sharing(*optimizer, arena->plan().total_bytes, sharing))
    share_steps(communicator, sharing.averages);
  if (!node_) allocate_state();
}

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
void ArenaOptimizer::share_steps(const Communicator& communicator, bool averages) {
  auto node = communicator.split(communicator.topology().node, 0, "node").value();
  const auto parameters = shared_memory(node, arena(), 0);
  bool has_room = parameters != nullptr;
  for (std::size_t slot = 0; has_room && slot < algorithm().state_names().size(); ++slot) {
    const auto memory = shared_memory(node, arena(), algorithm().initial_state(slot));
    has_room = memory != nullptr;
    if (has_room) state_.push_back(arena().flat_views(memory));
  }
  if (all_reduce_value(communicator, has_room ? 1 : 0, ReduceOp::min) == 0) return;
  arena().share_parameters(node, parameters);
  all_ = arena().gradient_communicator(communicator);
  node_ = std::move(node);
  averages_ = averages && all_->topology().nodes == 1 && arena().buckets() > 0 &&
              !arena().gradients_on_node(0).empty();
}

std::vector<torch::Tensor> ArenaOptimizer::gradients_to_average(std::size_t bucket) const {
  if (!averages_) return {};
  return arena().gradients_on_node(bucket);
}

std::vector<BucketOptimizer::Own> ArenaOptimizer::own_parts(std::size_t bucket) const {
  const Bucket& whole = arena().plan().buckets[bucket];
  if (!node_) return {{0, whole.count, 0}};
  const auto [begin, end] = parallel::slice_of(whole.count, node_->size(), node_->rank());
  return {{begin, end, begin}};
}

// Waits until all ranks of the node have finished backward, which reads the old parameters. Throws
// on every rank if any has joined, or other nodes would step alone.
void ArenaOptimizer::begin_step() {
  // The parameters may have got other memory since the gradients were averaged.
  if (const std::string changes = arena().take_back_parameters(); !changes.empty())
    throw Error("parallel: " + changes);
  if (!node_) return;
  all_->require_all_ranks(need_of_all_ranks);
  node_->barrier({.name = "shared step begins"});
  node_->require_all_ranks(need_of_all_ranks);
}

void ArenaOptimizer::end_step() {
  if (node_) node_->barrier({.name = "shared step ends"});
}

std::vector<NamedTensor> ArenaOptimizer::named_state(std::optional<int> /*only*/) const {
  require_same_plan();
  return named(state_);
}

// Takes one rank per node if steps are shared, because the node holds the state once.
void ArenaOptimizer::scatter_state(const Communicator& ranks,
                                   std::span<const std::int64_t> skipped_steps,
                                   const FillState& fill) {
  if (ranks.rank() == 0) fill(named_state());
  require_same_plan();
  set_skipped_steps(skipped_steps);
  const bool takes_part = !node_ || ranks.topology().local_rank == 0;
  const auto holders = node_ ? ranks.split(takes_part ? 0 : -1, 0, "a rank of each node") : ranks;
  for (const auto& buckets : state_) {
    for (const torch::Tensor& flat : buckets) {
      if (takes_part) holders->broadcast(buffer_of(flat));
    }
  }
  ranks.barrier();
}

}  // namespace kolo
