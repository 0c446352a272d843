#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "comm/device/device_sharing.h"
#include "comm/job.h"
#include "comm/shared_memory/node_group.h"
#include "comm/shared_memory/node_segment.h"
#include "comm/solo/alone.h"
#include "comm/transfers/node_line.h"
#include "comm/transfers/transfer_desk.h"
#include "comm/watch/watch.h"
#include "kolo/base/error.h"
#include "kolo/comm/backend.h"
#include "kolo/comm/threads.h"

namespace kolo {

namespace {

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

// Memory of a group. Sets of ranks made from it share its abort cell: a rank that gives up ends the
// waiting in all of them.
struct ThreadMemory {
  ThreadMemory(int ranks, std::size_t staging_bytes, std::shared_ptr<AbortCell> parents_abort)
      : abort(parents_abort ? std::move(parents_abort) : std::make_shared<AbortCell>()),
        cells(static_cast<std::size_t>(ranks)),
        offered(cells.size()) {
    for (int rank = 0; rank < ranks; ++rank) {
      staging.push_back(allocate_aligned(staging_bytes));
      mailboxes.push_back(allocate_aligned(NodeMailbox::bytes_for(ranks, staging_bytes)));
    }
  }

  std::shared_ptr<AbortCell> abort;
  std::vector<RankCell> cells;
  std::vector<std::shared_ptr<std::byte>> staging;
  std::vector<std::shared_ptr<std::byte>> mailboxes;
  std::vector<std::shared_ptr<void>> offered;  // objects that the ranks show the others, by rank
};

NodeMemory view_of(const std::shared_ptr<ThreadMemory>& shared) {
  NodeMemory memory;
  memory.abort = shared->abort.get();
  for (auto& cell : shared->cells) memory.cells.push_back(&cell);
  for (auto& area : shared->staging) memory.staging.push_back(area.get());
  memory.owner = shared;
  return memory;
}

// Ranks as threads of one process.
class ThreadBackend final : public Backend {
 public:
  // `job_ranks`: the members' ranks in the job.
  ThreadBackend(std::vector<int> job_ranks, Topology topology, std::shared_ptr<ThreadMemory> memory,
                const ThreadRanksOptions& options, std::shared_ptr<TransferThread> transfer_thread)
      : job_ranks_(std::move(job_ranks)),
        topology_(std::move(topology)),
        memory_(std::move(memory)),
        options_(options),
        group_(topology_.rank, view_of(memory_), std::make_shared<OwnAddressSpace>(options.direct),
               NodeGroupOptions{.staging_bytes = options.staging_bytes,
                                .whole_limit_bytes = options.whole_limit_bytes}),
        transfer_thread_(std::move(transfer_thread)),
        transfers_(make_transfers()) {
    const auto rank = static_cast<std::size_t>(topology_.rank);
    memory_->cells[rank].job_rank = job_ranks_[rank];
    transfer_thread_->add(transfers_);
  }

  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override {
    return {.backend = "threads",
            .transport = "memory of one process",
            .shared_memory = true,
            .concurrent = true};
  }
  void execute(const CollectiveCall& call) override { group_.execute(call); }
  void agree(const CallHeader& call) override { group_.agree(call); }

  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override {
    const auto bytes = static_cast<std::size_t>(call.count);
    if (call.collective == Collective::allocate) return {allocate_aligned(bytes)};
    // The first rank of a node makes memory for the node.
    const bool is_for_node = call.collective == Collective::allocate_for_node;
    const bool is_maker = !is_for_node || topology_.local_rank == 0;
    const auto made = exchange(call, is_maker ? allocate_aligned(bytes) : nullptr);
    std::vector<std::shared_ptr<std::byte>> of_this_node;
    for (const int rank : topology_.ranks_on_node())
      of_this_node.push_back(made[static_cast<std::size_t>(rank)]);
    if (is_for_node) of_this_node.resize(1);
    return of_this_node;
  }

  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override {
    const auto call = CollectiveCall::of(Collective::split);
    group_.agree(call);
    auto set = gather_set(topology_, job_ranks_, color, key,
                          [this](const CollectiveCall& each) { execute(each); });
    // The first member makes the set's memory.
    const bool is_first = set.has_this_rank() && set.members.front() == topology_.rank;
    const auto memories =
        exchange(call, is_first ? std::make_shared<ThreadMemory>(
                                      set.topology.size, options_.staging_bytes, memory_->abort)
                                : nullptr);
    if (!set.has_this_rank()) return nullptr;
    return std::make_shared<ThreadBackend>(std::move(set.job_ranks), std::move(set.topology),
                                           memories[static_cast<std::size_t>(set.members.front())],
                                           options_, transfer_thread_);
  }

  [[nodiscard]] std::shared_ptr<TransferDesk> transfers() override { return transfers_; }
  void leave() noexcept override {
    transfers_->end();
    group_.leave();
  }
  void abort(int, std::string_view reason) noexcept override { group_.abort(reason); }

 private:
  // Gives everybody's object, by rank. The pointers to them belong to all, so that a rank that
  // gives up takes nothing away that another still looks at.
  template <typename T>
  std::vector<std::shared_ptr<T>> exchange(const CallHeader& call, std::shared_ptr<T> mine) {
    auto& own = memory_->offered[static_cast<std::size_t>(topology_.rank)];
    own = std::move(mine);
    group_.agree(call);
    std::vector<std::shared_ptr<T>> objects;
    for (const auto& object : memory_->offered)
      objects.push_back(std::static_pointer_cast<T>(object));
    group_.agree(CollectiveCall::of(Collective::barrier));
    own.reset();
    return objects;
  }

  [[nodiscard]] std::shared_ptr<TransferDesk> make_transfers() {
    NodeLineMemory memory;
    for (int rank = 0; rank < topology_.size; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      memory.mailboxes.emplace_back(memory_->mailboxes[index].get(), topology_.size,
                                    options_.staging_bytes);
      memory.bells.push_back(transfer_thread_->bell_of(job_ranks_[index]));
      memory.ranks.push_back(rank);
    }
    memory.control = view_of(memory_);
    const auto line = std::make_shared<NodeLine>(topology_.rank, std::move(memory));
    std::vector<std::shared_ptr<TransferLine>> lines(job_ranks_.size(), line);
    return std::make_shared<TransferDesk>(topology_.rank, std::move(lines), transfer_thread_,
                                          false);
  }

  std::vector<int> job_ranks_;
  Topology topology_;
  std::shared_ptr<ThreadMemory> memory_;
  ThreadRanksOptions options_;
  NodeGroup group_;
  std::shared_ptr<TransferThread> transfer_thread_;
  std::shared_ptr<TransferDesk> transfers_;
};

}  // namespace

void run_as_threads(int ranks, const std::function<void(const Communicator&)>& body,
                    const ThreadRanksOptions& options) {
  const auto memory = std::make_shared<ThreadMemory>(ranks, options.staging_bytes, nullptr);
  const auto nodes = pretended_nodes(ranks, options.ranks_on_nodes);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks)), echoes(errors.size());
  std::vector<int> job_ranks(errors.size());
  std::iota(job_ranks.begin(), job_ranks.end(), 0);
  std::vector<std::shared_ptr<Bell>> bells;
  for (int rank = 0; rank < ranks; ++rank) bells.push_back(std::make_shared<Bell>());
  const auto run_rank = [&](int rank) {
    const auto backend = make_device_backend(
        std::make_shared<ThreadBackend>(job_ranks, Topology::from_node_ids(rank, nodes), memory,
                                        options, std::make_shared<TransferThread>(rank, bells)),
        std::make_shared<DeviceSharing>(options.devices));
    const Communicator communicator(backend);
    try {
      if (options.watch.enabled)
        communicator.add_listener(
            Watch::listener_of(std::make_shared<Watch>(backend, options.watch)));
      body(communicator);
    } catch (const CommunicationError&) {
      echoes[static_cast<std::size_t>(rank)] = std::current_exception();
      communicator.abort();
    } catch (...) {
      errors[static_cast<std::size_t>(rank)] = std::current_exception();
      communicator.abort();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
  }
  errors.insert(errors.end(), echoes.begin(), echoes.end());
  std::erase(errors, nullptr);
  if (!errors.empty()) std::rethrow_exception(errors.front());
}

}  // namespace kolo
