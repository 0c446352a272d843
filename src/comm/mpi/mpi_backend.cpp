#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/aligned_memory.h"
#include "comm/mpi/cuda_aware_mpi.h"
#include "comm/mpi/mpi_collectives.h"
#include "comm/mpi/mpi_keeping.h"
#include "comm/mpi/mpi_line.h"
#include "comm/mpi/shared_segments.h"
#include "comm/shared_memory/node_group.h"
#include "comm/transfers/node_line.h"
#include "comm/transfers/transfer_desk.h"
#include "comm/transfers/transfer_thread.h"
#include "comm/watch/event_block.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

int job_rank() {
  int rank = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return rank;
}

// Of the group's members.
std::vector<int> job_ranks(const MpiGroup& group) {
  const int own = job_rank();
  std::vector<int> ranks(static_cast<std::size_t>(group.size()));
  check_mpi(MPI_Allgather(&own, 1, MPI_INT, ranks.data(), 1, MPI_INT, group.get()),
            "MPI_Allgather");
  return ranks;
}

Topology find_topology(const MpiGroup& group, int node_id) {
  std::vector<int> ids(static_cast<std::size_t>(group.size()));
  check_mpi(MPI_Allgather(&node_id, 1, MPI_INT, ids.data(), 1, MPI_INT, group.get()),
            "MPI_Allgather");
  return Topology::from_node_ids(group.rank(), ids);
}

constexpr int status_tag = 1;
constexpr int most_pending_statuses = 64;  // to one rank

// Point-to-point messages on a communicator of their own. Both are kept by the job: a message to a
// rank that never looks again stays pending, and can be neither awaited nor taken back. Takes the
// thread level `multiple`.
class MpiStatusExchange final : public StatusExchange {
 public:
  MpiStatusExchange(const MpiGroup& group, MpiSmallMessages& messages)
      : group_(group), messages_(messages) {}
  MpiStatusExchange(const MpiStatusExchange&) = delete;
  MpiStatusExchange& operator=(const MpiStatusExchange&) = delete;
  ~MpiStatusExchange() override = default;

  void send(int to, std::span<const std::byte> bytes) override;
  [[nodiscard]] std::optional<Message> receive() override;

 private:
  const MpiGroup& group_;
  MpiSmallMessages& messages_;
};
void MpiStatusExchange::send(int to, std::span<const std::byte> bytes) {
  int pending_there = 0;
  for (auto message = messages_.pending.begin(); message != messages_.pending.end();) {
    int is_done = 0;
    check_mpi(MPI_Test(&message->request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!is_done && message->to == to) ++pending_there;
    message = is_done ? messages_.pending.erase(message) : std::next(message);
  }
  if (pending_there >= most_pending_statuses) return;
  auto& message = messages_.pending.emplace_back();
  message.to = to;
  message.bytes.assign(bytes.begin(), bytes.end());
  check_mpi(MPI_Isend(message.bytes.data(), narrow<int>(message.bytes.size()), MPI_BYTE, to,
                      status_tag, group_.get(), &message.request),
            "MPI_Isend");
}

std::optional<StatusExchange::Message> MpiStatusExchange::receive() {
  int is_there = 0, count = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, status_tag, group_.get(), &is_there, &status), "MPI_Iprobe");
  if (!is_there) return std::nullopt;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
  Message message{.from = status.MPI_SOURCE,
                  .bytes = std::vector<std::byte>(static_cast<std::size_t>(count))};
  check_mpi(MPI_Recv(message.bytes.data(), count, MPI_BYTE, status.MPI_SOURCE, status_tag,
                     group_.get(), MPI_STATUS_IGNORE),
            "MPI_Recv");
  return message;
}

class MpiBackend final : public Backend {
 public:
  // `transfer_thread`: none: this is the job's first, which makes it.
  MpiBackend(std::shared_ptr<const MpiRuntime> runtime, std::shared_ptr<MpiKeeping> keeping,
             MpiGroup group, int node_id, const MpiOptions& options,
             std::shared_ptr<TransferThread> transfer_thread = nullptr);

  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override;

  void execute(const CollectiveCall& call) override;
  void agree(const CallHeader& call) override {
    if (is_one_node()) node_group_->agree(call);
  }
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override;
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override;
  [[nodiscard]] bool moves_memory_of(const DeviceRuntime& runtime) const override {
    return !runtime.needs_aware_mpi() || is_cuda_aware_mpi();
  }
  void move(const CollectiveCall& call) override { objects_.all_collectives->execute(call); }
  [[nodiscard]] std::unique_ptr<StatusExchange> status_exchange() override;
  [[nodiscard]] std::shared_ptr<TransferDesk> transfers() override { return transfers_; }
  void leave() noexcept override;
  void abort(int exit_code) noexcept override { keeping_->abort(exit_code); }

 private:
  void start_node_stage();
  void start_transfers();
  [[nodiscard]] std::vector<int> ranks_of_node() const;
  [[nodiscard]] std::vector<std::shared_ptr<Bell>> bells_of_node() const;
  [[nodiscard]] std::shared_ptr<TransferLine> make_node_line(
      const std::vector<int>& job_ranks) const;
  void all_reduce_over_nodes(const CollectiveCall& call);
  [[nodiscard]] bool is_one_node() const { return node_group_ && topology_.nodes == 1; }

  std::shared_ptr<const MpiRuntime> runtime_;  // the last to go
  std::shared_ptr<MpiKeeping> keeping_;
  MpiOptions options_;
  MpiObjects& objects_;  // kept
  Topology topology_;
  std::shared_ptr<SharedSegments> segments_;
  std::shared_ptr<NodeGroup> node_group_;  // none: this node's ranks share no memory
  NodeMemory node_memory_;
  std::vector<NodeMailbox> mailboxes_;  // by local rank, in the same memory
  std::shared_ptr<TransferThread> transfer_thread_;
  std::shared_ptr<TransferDesk> transfers_;  // none: there is one rank
};

}  // namespace

MpiBackend::MpiBackend(std::shared_ptr<const MpiRuntime> runtime,
                       std::shared_ptr<MpiKeeping> keeping, MpiGroup group, int node_id,
                       const MpiOptions& options, std::shared_ptr<TransferThread> transfer_thread)
    : runtime_(std::move(runtime)),
      keeping_(std::move(keeping)),
      options_(options),
      objects_(keeping_->add(group)),
      topology_(find_topology(objects_.all, node_id)),
      transfer_thread_(std::move(transfer_thread)) {
  objects_.all_collectives.emplace(objects_.all.get(), options_.largest_count);
  if (options_.shared_memory != SharedMemory::off && topology_.nodes < topology_.size)
    start_node_stage();
  if (topology_.size > 1) start_transfers();
}

void MpiBackend::start_node_stage() {
  objects_.node = objects_.all.split(topology_.node);
  segments_ = std::make_shared<SharedSegments>(objects_.all, objects_.node);
  const std::size_t cells = sizeof(AbortCell) + sizeof(RankCell);
  const std::size_t staged = checked_add(cells, options_.staging_bytes + 63) / 64 * 64;
  const auto stage = segments_->add(
      checked_add(staged, NodeMailbox::bytes_for(topology_.local_size, options_.staging_bytes)),
      SharedSegment::Room::at_once);
  if (!stage) return;
  std::byte* const own = stage->part(topology_.local_rank);
  new (own) AbortCell{};
  auto* const cell = new (own + sizeof(AbortCell)) RankCell{};
  cell->job_rank = job_rank();
  cell->process = own_process();
  cell->process_namespace = own_process_namespace();
  check_mpi(MPI_Barrier(objects_.node.get()), "MPI_Barrier");
  NodeMemory memory;
  memory.abort = reinterpret_cast<AbortCell*>(stage->part(0));
  for (int peer = 0; peer < topology_.local_size; ++peer) {
    std::byte* const part = stage->part(peer);
    memory.cells.push_back(reinterpret_cast<RankCell*>(part + sizeof(AbortCell)));
    memory.staging.push_back(part + cells);
    mailboxes_.emplace_back(part + staged, topology_.local_size, options_.staging_bytes);
  }
  memory.owner = stage;
  node_memory_ = memory;
  node_group_ = std::make_shared<NodeGroup>(
      topology_.local_rank, std::move(memory), segments_,
      NodeGroupOptions{.staging_bytes = options_.staging_bytes,
                       .whole_limit_bytes = options_.whole_limit_bytes});
  objects_.node_group = node_group_;
  if (topology_.nodes > 1) {
    const bool has_slice = topology_.local_rank < topology_.smallest_node();
    objects_.across = objects_.all.split(has_slice ? topology_.local_rank : -1);
    if (has_slice)
      objects_.across_collectives.emplace(objects_.across.get(), options_.largest_count);
  }
}

void MpiBackend::start_transfers() {
  const auto ranks_in_job = job_ranks(objects_.all);
  if (!transfer_thread_) {
    transfer_thread_ = std::make_shared<TransferThread>(
        ranks_in_job[static_cast<std::size_t>(topology_.rank)], bells_of_node());
  }
  const auto near = make_node_line(ranks_in_job);
  const bool is_near_only = near && is_one_node();
  const auto far = is_near_only ? nullptr : make_mpi_line(objects_, options_.largest_count);
  std::vector<std::shared_ptr<TransferLine>> lines;
  for (const int node : topology_.node_of_rank)
    lines.push_back(near && node == topology_.node ? near : far);
  const bool is_driven_by_waiters =
      !is_near_only && keeping_->threads().level < ThreadLevel::multiple;
  transfers_ = std::make_shared<TransferDesk>(topology_.rank, std::move(lines), transfer_thread_,
                                              is_driven_by_waiters);
  transfer_thread_->add(transfers_);
}

std::vector<int> MpiBackend::ranks_of_node() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < topology_.size; ++rank) {
    if (topology_.node_of_rank[static_cast<std::size_t>(rank)] == topology_.node)
      ranks.push_back(rank);
  }
  return ranks;
}

// Of the job, whose ring for all its groups, by rank; none where its ranks share no memory.
std::vector<std::shared_ptr<Bell>> MpiBackend::bells_of_node() const {
  if (mailboxes_.empty()) return {};
  std::vector<std::shared_ptr<Bell>> bells(topology_.node_of_rank.size());
  for (auto mailbox = mailboxes_.begin(); const int rank : ranks_of_node())
    bells[static_cast<std::size_t>(rank)] = {node_memory_.owner, &(mailbox++)->bell()};
  return bells;
}

// Nothing where the node's ranks share no memory, here or in the job.
std::shared_ptr<TransferLine> MpiBackend::make_node_line(const std::vector<int>& job_ranks) const {
  const auto own_rank = job_ranks[static_cast<std::size_t>(topology_.rank)];
  if (mailboxes_.empty() || !transfer_thread_->bell_of(own_rank)) return nullptr;
  NodeLineMemory memory;
  memory.mailboxes = mailboxes_;
  memory.ranks = ranks_of_node();
  for (const int rank : memory.ranks) {
    memory.bells.push_back(transfer_thread_->bell_of(job_ranks[static_cast<std::size_t>(rank)]));
  }
  memory.control = node_memory_;
  return std::make_shared<NodeLine>(topology_.local_rank, std::move(memory), segments_);
}

void MpiBackend::leave() noexcept {
  if (transfers_) transfers_->end();
  if (node_group_) node_group_->leave();
}

Capabilities MpiBackend::capabilities() const {
  Capabilities capabilities;
  capabilities.backend = "mpi";
  capabilities.thread_level = name_of(keeping_->threads().level);
  capabilities.asynchronous = keeping_->threads().may_call;
  capabilities.shared_memory = node_group_ != nullptr;
  capabilities.concurrent = keeping_->threads().level == ThreadLevel::multiple;
  capabilities.transport = is_one_node() ? "shared memory"
                           : node_group_ ? "shared memory inside nodes, MPI between them"
                                         : "MPI";
  return capabilities;
}

void MpiBackend::execute(const CollectiveCall& call) {
  if (is_one_node()) return node_group_->execute(call);
  const bool is_average_of_integers =
      call.op == ReduceOp::average && call.type > DataType::bfloat16;
  if (call.collective == Collective::all_reduce && node_group_ && !is_average_of_integers)
    return all_reduce_over_nodes(call);
  objects_.all_collectives->execute(call);
}

void MpiBackend::all_reduce_over_nodes(const CollectiveCall& call) {
  const auto& nodes = objects_.across_collectives;  // nothing on a rank without a slice
  const NodeGroup::AcrossNodes across{
      .reduce =
          [&](const Buffer& partial, const Buffer& result) {
            // What the node's average has been divided by is the number of all ranks already.
            nodes->all_reduce_partial(partial, result,
                                      call.op == ReduceOp::average ? ReduceOp::sum : call.op);
          },
      .everywhere =
          [&](bool here) {
            std::uint8_t value = here ? 1 : 0;
            nodes->execute(CollectiveCall::all_reduce(std::span(&value, 1), ReduceOp::min));
            return value == 1;
          }};
  node_group_->all_reduce(call, topology_.smallest_node(), &across);
}

// Out of a segment, in which each rank has a part; what is for the whole node is all of the first
// rank's, and the others have none.
std::vector<std::shared_ptr<std::byte>> MpiBackend::allocate(const CallHeader& call) {
  const auto bytes = static_cast<std::size_t>(call.count);
  const bool is_for_node = call.collective == Collective::allocate_for_node;
  const bool is_own = call.collective == Collective::allocate;
  if (is_one_node()) node_group_->agree(call);
  std::shared_ptr<SharedSegment> segment;
  if (node_group_) {
    segment = segments_->add(
        is_for_node && topology_.local_rank > 0 ? 0 : bytes,
        is_for_node ? SharedSegment::Room::when_written : SharedSegment::Room::at_once);
  }
  if (!segment && is_own) return {allocate_aligned(bytes)};
  if (!segment) return {};
  const auto use = SharedSegments::use_of(segment);
  std::vector<std::shared_ptr<std::byte>> parts;
  for (int peer = 0; peer < (is_for_node ? 1 : topology_.local_size); ++peer)
    parts.emplace_back(use, segment->part(peer));
  if (is_own) return {parts[static_cast<std::size_t>(topology_.local_rank)]};
  return parts;
}

std::shared_ptr<Backend> MpiBackend::split(int color, int key) {
  if (is_one_node()) node_group_->agree(CollectiveCall::of(Collective::split));
  const auto part = objects_.all.split(color, key);
  if (color < 0) return nullptr;
  // What was asked of the job's nodes need not be possible on those of a few ranks.
  MpiOptions options = options_;
  if (options.shared_memory == SharedMemory::on) options.shared_memory = SharedMemory::automatic;
  return std::make_shared<MpiBackend>(runtime_, keeping_, part, topology_.node, options,
                                      transfer_thread_);
}

std::unique_ptr<StatusExchange> MpiBackend::status_exchange() {
  if (is_one_node() || keeping_->threads().level < ThreadLevel::multiple) return nullptr;
  objects_.statuses = objects_.all.split(0);
  return std::make_unique<MpiStatusExchange>(objects_.statuses, objects_.status_messages);
}

std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<const MpiRuntime> runtime,
                                          std::shared_ptr<MpiKeeping> keeping, MpiGroup group,
                                          int node_id, const MpiOptions& options) {
  return std::make_shared<MpiBackend>(std::move(runtime), std::move(keeping), group, node_id,
                                      options);
}

}  // namespace kolo
