#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "comm/mpi/mpi_backend.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

// How sets of ranks are made.
namespace kolo {

std::shared_ptr<Backend> MpiBackend::split(int color, int key) {
  return guarded([&] { return split_unguarded(color, key); });
}

// Ranks that meet in shared memory make the memory of a set without MPI; where there is no room
// for it, and over several nodes, a set has communicators of MPI's.
std::shared_ptr<Backend> MpiBackend::split_unguarded(int color, int key) {
  agree_unguarded(CollectiveCall::of(Collective::split));
  const Execute execute = [this](const CollectiveCall& call) { execute_unguarded(call); };
  auto set = gather_set(topology_, job_ranks_, color, key, execute);
  const bool is_made =
      !needs_mpi() && make_stage_of(set, topology_, options_.staging_bytes, execute);
  MpiObjects* const objects = is_made ? nullptr : take_objects(set);
  if (!set.has_this_rank()) return nullptr;
  // What was asked of the job's nodes need not be possible on those of a few ranks.
  MpiOptions options = options_;
  if (options.shared_memory == SharedMemory::on) options.shared_memory = SharedMemory::automatic;
  return std::make_shared<MpiBackend>(runtime_, keeping_, std::move(set), objects, options,
                                      transfer_thread_);
}

// Those of an earlier set of the same ranks in the same order, if all of these have let go of it;
// otherwise new ones.
MpiObjects* MpiBackend::take_objects(const RankSet& set) {
  const bool may_call = !is_one_node() || keeping_->rules().level == ThreadLevel::multiple;
  if (objects_ == nullptr || !may_call)
    throw Error("comm: split: the ranks of a node can't share memory for a set of them");
  const auto kept = set.has_this_rank() ? keeping_->kept_of(set.job_ranks) : MpiKeeping::Kept{};
  const auto mine = static_cast<std::int64_t>(kept.used);
  const Execute execute = [this](const CollectiveCall& call) { execute_unguarded(call); };
  const auto used = gather(topology_, std::span(&mine, 1), execute);
  std::uint64_t used_by_any = 0;
  for (const int rank : set.members)
    used_by_any |= static_cast<std::uint64_t>(used[static_cast<std::size_t>(rank)]);
  const int place = std::countr_one(used_by_any);
  const bool is_new = set.has_this_rank() && place >= kept.count;
  if (!is_everywhere(!is_new, execute)) {
    const auto made = objects_->all.split(is_new ? set.color : -1, set.key);
    if (is_new) return &keeping_->add(made, set.job_ranks);
  }
  return set.has_this_rank() ? &keeping_->take(set.job_ranks, place) : nullptr;
}

}  // namespace kolo
