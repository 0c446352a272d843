#include "comm/threads/thread_backend.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "comm/aligned_memory.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

// In one process an address is an address.
class OwnAddressSpace final : public PeerMemory {
 public:
  explicit OwnAddressSpace(bool direct) : direct_(direct) {}

  [[nodiscard]] std::optional<SharedLocation> locate(const void* data, std::size_t) const override {
    if (!direct_) return std::nullopt;
    return SharedLocation{0, reinterpret_cast<std::uintptr_t>(data)};
  }

  [[nodiscard]] std::byte* address(int, SharedLocation location) const override {
    return reinterpret_cast<std::byte*>(location.offset);
  }

 private:
  bool direct_;
};

NodeMemory view_of(const std::shared_ptr<ThreadMemory>& shared) {
  NodeMemory memory;
  memory.abort = shared->abort.get();
  for (auto& cell : shared->cells) memory.cells.push_back(&cell);
  for (auto& area : shared->staging) memory.staging.push_back(area.get());
  memory.owner = shared;
  return memory;
}

// A rank's wish in a split.
struct Placement {
  int color = 0;
  int key = 0;
  int rank = 0;  // in the group that is split
};

// The members of a set, in its order.
std::vector<Placement> members_of(int color,
                                  const std::vector<std::shared_ptr<Placement>>& everybody) {
  std::vector<Placement> members;
  for (const auto& placement : everybody) {
    if (placement->color == color) members.push_back(*placement);
  }
  std::sort(members.begin(), members.end(), [](const Placement& a, const Placement& b) {
    return std::tie(a.key, a.rank) < std::tie(b.key, b.rank);
  });
  return members;
}

}  // namespace

ThreadMemory::ThreadMemory(int ranks, std::size_t staging_bytes,
                           std::shared_ptr<AbortCell> parents_abort)
    : abort(parents_abort ? std::move(parents_abort) : std::make_shared<AbortCell>()),
      cells(static_cast<std::size_t>(ranks)),
      offered(cells.size()) {
  for (int rank = 0; rank < ranks; ++rank) staging.push_back(allocate_aligned(staging_bytes));
}

ThreadBackend::ThreadBackend(int job_rank, Topology topology, std::shared_ptr<ThreadMemory> memory,
                             const ThreadRanksOptions& options)
    : job_rank_(job_rank),
      topology_(std::move(topology)),
      memory_(std::move(memory)),
      options_(options),
      group_(topology_.rank, view_of(memory_), std::make_shared<OwnAddressSpace>(options.direct),
             NodeGroupOptions{.staging_bytes = options.staging_bytes,
                              .whole_limit_bytes = options.whole_limit_bytes}) {
  memory_->cells[static_cast<std::size_t>(topology_.rank)].job_rank = job_rank_;
}

Capabilities ThreadBackend::capabilities() const {
  return {.backend = "threads",
          .transport = "memory of one process",
          .thread_level = "",
          .asynchronous = true,
          .shared_memory = true,
          .concurrent = true};
}

std::shared_ptr<std::byte> ThreadBackend::allocate(std::size_t bytes) {
  return allocate_aligned(bytes);
}

// Everybody's object, by rank. The places for them belong to all, so that a rank that gives up
// leaves nothing behind that another still looks at.
template <typename T>
std::vector<std::shared_ptr<T>> ThreadBackend::exchange(Collective collective, std::int64_t count,
                                                        std::shared_ptr<T> mine) {
  auto& own_place = memory_->offered[static_cast<std::size_t>(topology_.rank)];
  own_place = std::move(mine);
  group_.agree(collective, count);
  std::vector<std::shared_ptr<T>> objects;
  for (const auto& object : memory_->offered)
    objects.push_back(std::static_pointer_cast<T>(object));
  group_.barrier();
  own_place.reset();
  return objects;
}

std::vector<std::shared_ptr<std::byte>> ThreadBackend::allocate_shared(std::size_t bytes) {
  const auto parts =
      exchange(Collective::allocate, narrow<std::int64_t>(bytes), allocate_aligned(bytes));
  std::vector<std::shared_ptr<std::byte>> of_this_node;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (topology_.node_of_rank[rank] == topology_.node) of_this_node.push_back(parts[rank]);
  }
  return of_this_node;
}

// The node's first rank makes it.
std::shared_ptr<std::byte> ThreadBackend::allocate_for_node(std::size_t bytes) {
  const auto offered = exchange(Collective::allocate, narrow<std::int64_t>(bytes),
                                topology_.local_rank == 0 ? allocate_aligned(bytes) : nullptr);
  const auto& nodes = topology_.node_of_rank;
  const auto first = std::find(nodes.begin(), nodes.end(), topology_.node) - nodes.begin();
  return offered[static_cast<std::size_t>(first)];
}

std::shared_ptr<Backend> ThreadBackend::split(int color, int key) {
  const auto everybody =
      exchange(Collective::split, 0,
               std::make_shared<Placement>(Placement{color < 0 ? -1 : color, key, topology_.rank}));
  const auto members = members_of(color, everybody);
  const bool is_first = color >= 0 && members.front().rank == topology_.rank;
  // The first member makes what they share.
  const auto memories =
      exchange(Collective::split, 0,
               is_first ? std::make_shared<ThreadMemory>(narrow<int>(members.size()),
                                                         options_.staging_bytes, memory_->abort)
                        : nullptr);
  if (color < 0) return nullptr;
  std::vector<int> node_ids;
  int place = 0;
  for (const Placement& member : members) {
    if (member.rank == topology_.rank) place = narrow<int>(node_ids.size());
    node_ids.push_back(topology_.node_of_rank[static_cast<std::size_t>(member.rank)]);
  }
  return std::make_shared<ThreadBackend>(job_rank_, Topology::from_node_ids(place, node_ids),
                                         memories[static_cast<std::size_t>(members.front().rank)],
                                         options_);
}

}  // namespace kolo
