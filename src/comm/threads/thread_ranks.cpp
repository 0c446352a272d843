#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "comm/aligned_memory.h"
#include "comm/shared_memory/node_group.h"
#include "kolo/base/checked.h"
#include "kolo/comm/threads.h"

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

class ThreadBackend final : public Backend {
 public:
  ThreadBackend(Topology topology, NodeMemory memory, const ThreadRanksOptions& options)
      : topology_(std::move(topology)),
        group_(topology_.rank, std::move(memory), std::make_shared<OwnAddressSpace>(options.direct),
               NodeGroupOptions{.staging_bytes = options.staging_bytes,
                                .whole_limit_bytes = options.whole_limit_bytes}) {}

  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override {
    return {.backend = "threads",
            .transport = "memory of one process",
            .thread_level = "",
            .asynchronous = true,
            .shared_memory = true};
  }
  void all_reduce(const Buffer& buffer, ReduceOp op) override { group_.all_reduce(buffer, op); }
  void broadcast(const Buffer& buffer, int root) override { group_.broadcast(buffer, root); }
  void all_gather(const ConstBuffer& input, const Buffer& output) override {
    group_.all_gather(input, output);
  }
  void reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op) override {
    group_.reduce_scatter(input, output, op);
  }
  void barrier() override { group_.barrier(); }
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    return allocate_aligned(bytes);
  }
  void abort(int) noexcept override { group_.abort(); }

 private:
  Topology topology_;
  NodeGroup group_;
};

NodeMemory make_memory(int ranks, std::size_t staging_bytes) {
  struct Storage {
    AbortCell abort{};
    std::vector<RankCell> cells;
    std::vector<std::shared_ptr<std::byte>> staging;
  };
  auto storage = std::make_shared<Storage>();
  storage->cells = std::vector<RankCell>(static_cast<std::size_t>(ranks));
  NodeMemory memory;
  memory.abort = &storage->abort;
  for (auto& cell : storage->cells) {
    storage->staging.push_back(allocate_aligned(staging_bytes));
    memory.cells.push_back(&cell);
    memory.staging.push_back(storage->staging.back().get());
  }
  memory.owner = std::move(storage);
  return memory;
}

std::vector<int> node_ids(int ranks, const std::vector<int>& ranks_on_nodes) {
  std::vector<int> ids;
  for (std::size_t node = 0; node < ranks_on_nodes.size(); ++node) {
    ids.insert(ids.end(), static_cast<std::size_t>(ranks_on_nodes[node]), static_cast<int>(node));
  }
  if (ids.empty()) ids.resize(static_cast<std::size_t>(ranks), 0);
  if (static_cast<int>(ids.size()) != ranks) {
    throw Error(
        fmt::format("comm: threads: the nodes hold {} ranks, but there are {}", ids.size(), ranks));
  }
  return ids;
}

bool is_echo(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const CommunicationError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void run_as_threads(int ranks, const std::function<void(const Communicator&)>& body,
                    const ThreadRanksOptions& options) {
  const auto memory = make_memory(ranks, options.staging_bytes);
  const auto ids = node_ids(ranks, options.ranks_on_nodes);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  const auto run_rank = [&](int rank) {
    const Communicator communicator(
        std::make_shared<ThreadBackend>(Topology::from_node_ids(rank, ids), memory, options));
    try {
      body(communicator);
    } catch (...) {
      errors[static_cast<std::size_t>(rank)] = std::current_exception();
      communicator.abort();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
  }
  std::erase(errors, nullptr);
  if (errors.empty()) return;
  const auto cause = std::find_if_not(errors.begin(), errors.end(), is_echo);
  std::rethrow_exception(cause == errors.end() ? errors.front() : *cause);
}

}  // namespace kolo
