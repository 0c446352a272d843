#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/mpi/mpi_backend.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

// How sets of ranks are made.
namespace kolo {

template <typename T>
std::vector<T> MpiBackend::gather(std::span<const T> mine) {
  std::vector<T> all(mine.size() * static_cast<std::size_t>(topology_.size));
  execute_unguarded(CollectiveCall::all_gather(mine, std::span(all)));
  return all;
}

std::shared_ptr<Backend> MpiBackend::split(int color, int key) {
  return guarded([&] { return split_unguarded(color, key); });
}

MpiBackend::Members MpiBackend::gather_members(int color, int key) {
  const std::array<std::int32_t, 2> mine = {std::max(color, -1), key};
  const auto all = gather(std::span<const std::int32_t>(mine));
  Members members{.color = mine[0], .key = key, .ranks = {}};
  for (int rank = 0; rank < topology_.size; ++rank) {
    if (color >= 0 && all[2 * static_cast<std::size_t>(rank)] == color)
      members.ranks.push_back(rank);
  }
  const auto key_of = [&](int rank) { return all[2 * static_cast<std::size_t>(rank) + 1]; };
  std::ranges::stable_sort(members.ranks, {}, key_of);
  return members;
}

// Ranks that meet in shared memory make the memory of a set without MPI; where there is no room
// for it, and over several nodes, a set has communicators of MPI's.
std::shared_ptr<Backend> MpiBackend::split_unguarded(int color, int key) {
  agree_unguarded(CollectiveCall::of(Collective::split));
  const auto members = gather_members(color, key);
  RankSet set;
  std::vector<int> nodes;
  for (const int rank : members.ranks) {
    nodes.push_back(topology_.node_of_rank[static_cast<std::size_t>(rank)]);
    set.job_ranks.push_back(job_ranks_[static_cast<std::size_t>(rank)]);
  }
  const auto place = std::ranges::find(members.ranks, topology_.rank) - members.ranks.begin();
  if (members.is_in_set()) set.topology = Topology::from_node_ids(narrow<int>(place), nodes);
  const bool is_made = !needs_mpi() && make_stage_of(members, set);
  if (!is_made) take_objects(members, set);
  if (!members.is_in_set()) return nullptr;
  // What was asked of the job's nodes need not be possible on those of a few ranks.
  MpiOptions options = options_;
  if (options.shared_memory == SharedMemory::on) options.shared_memory = SharedMemory::automatic;
  return std::make_shared<MpiBackend>(runtime_, keeping_, std::move(set), options,
                                      transfer_thread_);
}

// All sets of this split at once, by what their ranks tell each other here; or none of them.
bool MpiBackend::make_stage_of(const Members& members, RankSet& set) {
  const bool has_memory = set.topology.size > 1;
  const auto name_of_first = [&](const std::string& name) {
    const auto own = padded(name);
    const auto names = gather(std::span<const std::uint8_t>(own));
    if (!members.is_in_set()) return std::string();
    const auto begin = names.begin() + members.ranks.front() * std::ssize(own);
    SegmentName first{};
    std::copy_n(begin, first.size(), first.begin());
    return name_in(first);
  };
  const auto everywhere = [&](bool here) {
    std::uint8_t value = here ? 1 : 0;
    execute_unguarded(CollectiveCall::all_reduce(std::span(&value, 1), ReduceOp::min));
    return value == 1;
  };
  if (!has_memory) {
    (void)name_of_first({});
    return everywhere(true);
  }
  set.segments = std::make_shared<SharedSegments>(set.topology.rank);
  const std::vector<std::size_t> bytes(static_cast<std::size_t>(set.topology.size),
                                       stage_bytes(set.topology.size, options_));
  set.stage = set.segments->add(bytes, SharedSegment::Room::at_once, {name_of_first, everywhere});
  return set.stage != nullptr;
}

// Those of an earlier set of the same ranks in the same order, if all of these have let go of it;
// otherwise new ones.
void MpiBackend::take_objects(const Members& members, RankSet& set) {
  const bool may_call = !is_one_node() || keeping_->rules().level == ThreadLevel::multiple;
  if (objects_ == nullptr || !may_call) {
    throw Error(
        "comm: split: the ranks of a node can't share memory for a set of them; make room in "
        "/dev/shm");
  }
  const auto kept = members.is_in_set() ? keeping_->kept_of(set.job_ranks) : MpiKeeping::Kept{};
  const auto mine = static_cast<std::int64_t>(kept.used);
  const auto used = gather(std::span(&mine, 1));
  std::uint64_t used_by_any = 0;
  for (const int rank : members.ranks)
    used_by_any |= static_cast<std::uint64_t>(used[static_cast<std::size_t>(rank)]);
  const int place = std::countr_one(used_by_any);
  const bool is_new = members.is_in_set() && place >= kept.count;
  std::uint8_t are_any_new = is_new ? 1 : 0;
  execute_unguarded(CollectiveCall::all_reduce(std::span(&are_any_new, 1), ReduceOp::max));
  if (are_any_new != 0) {
    const auto part = objects_->all.split(is_new ? members.color : -1, members.key);
    if (is_new) set.objects = &keeping_->add(part, set.job_ranks);
  }
  if (members.is_in_set() && !is_new) set.objects = &keeping_->take(set.job_ranks, place);
}

}  // namespace kolo
