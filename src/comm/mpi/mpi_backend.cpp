#include "comm/mpi/mpi_backend.h"

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "comm/mpi/mpi_collectives.h"
#include "comm/mpi/mpi_messages.h"
#include "comm/negotiation/call_comparison.h"
#include "comm/solo/alone.h"
#include "comm/watch/event_block.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

Topology find_topology(const MpiGroup& group, int node_id) {
  std::vector<int> ids(static_cast<std::size_t>(group.size()));
  check_mpi(MPI_Allgather(&node_id, 1, MPI_INT, ids.data(), 1, MPI_INT, group.get()),
            "MPI_Allgather");
  return Topology::from_node_ids(group.rank(), ids);
}

}  // namespace

MpiBackend::MpiBackend(std::shared_ptr<const MpiRuntime> runtime,
                       std::shared_ptr<MpiKeeping> keeping, RankSet set, const MpiOptions& options,
                       std::shared_ptr<TransferThread> transfer_thread)
    : runtime_(std::move(runtime)),
      keeping_(std::move(keeping)),
      options_(options),
      objects_(set.objects),
      topology_(std::move(set.topology)),
      job_ranks_(std::move(set.job_ranks)),
      segments_(std::move(set.segments)),
      transfer_thread_(std::move(transfer_thread)) {
  if (objects_ && !objects_->all_collectives)
    objects_->all_collectives.emplace(objects_->all.get(), options_.largest_count, look());
  if (set.stage)
    use_stage(std::move(set.stage));
  else if (objects_ && options_.shared_memory != SharedMemory::off &&
           topology_.nodes < topology_.size)
    start_node_stage();
  if (topology_.size > 1) start_transfers();
  if (objects_ == &keeping_->objects_of_all()) keeping_->note_far_ranks(far_ranks());
}

// Of those that don't learn it by themselves when this one breaks the session.
std::vector<int> MpiBackend::far_ranks() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < topology_.size; ++rank) {
    const bool is_near =
        node_group_ && topology_.node_of_rank[static_cast<std::size_t>(rank)] == topology_.node;
    if (!is_near && rank != topology_.rank) ranks.push_back(rank);
  }
  return ranks;
}

MpiBackend::~MpiBackend() {
  if (objects_) objects_->is_used = false;
}

// What ends a wait in MPI before the others come: of a session its end.
std::function<void()> MpiBackend::look() const {
  if (!keeping_->rules().is_session) return nullptr;
  return [keeping = keeping_.get()] { keeping->look(); };  // which keeps who asks
}

// Of each rank: its cells, its staging area and its mailbox.
std::size_t MpiBackend::stage_bytes(int local_size, const MpiOptions& options) {
  const auto staged = checked_add(sizeof(AbortCell) + sizeof(RankCell), options.staging_bytes + 63);
  return checked_add(staged / 64 * 64, NodeMailbox::bytes_for(local_size, options.staging_bytes));
}

void MpiBackend::start_node_stage() {
  if (objects_->node.is_empty()) objects_->node = objects_->all.split(topology_.node);
  segments_ = std::make_shared<SharedSegments>(topology_.local_rank);
  if (auto stage = make_stage()) use_stage(std::move(stage));
}

// There are no cells yet in which the ranks could meet.
std::shared_ptr<SharedSegment> MpiBackend::make_stage() {
  MpiCollectives on_node(objects_->node.get(), options_.largest_count, look());
  const std::vector<std::size_t> bytes(static_cast<std::size_t>(topology_.local_size),
                                       stage_bytes(topology_.local_size, options_));
  const auto name_of_first = [&](const std::string& name) {
    auto text = padded(name);
    on_node.execute(CollectiveCall::broadcast(std::span(text), 0));
    return name_in(text);
  };
  const auto everywhere = [&](bool here) {
    std::uint8_t value = here ? 1 : 0;
    objects_->all_collectives->execute(
        CollectiveCall::all_reduce(std::span(&value, 1), ReduceOp::min));
    return value == 1;
  };
  auto stage = segments_->add(bytes, SharedSegment::Room::at_once, {name_of_first, everywhere});
  on_node.free();
  return stage;
}

// Every rank writes its own part before the others look: they come to the first meeting later.
void MpiBackend::use_stage(std::shared_ptr<SharedSegment> stage) {
  const std::size_t cells = sizeof(AbortCell) + sizeof(RankCell);
  const std::size_t staged = checked_add(cells, options_.staging_bytes + 63) / 64 * 64;
  NodeMemory memory;
  memory.abort = std::launder(reinterpret_cast<AbortCell*>(stage->part(0)));
  for (int peer = 0; peer < topology_.local_size; ++peer) {
    std::byte* const part = stage->part(peer);
    memory.cells.push_back(std::launder(reinterpret_cast<RankCell*>(part + sizeof(AbortCell))));
    memory.staging.push_back(part + cells);
    mailboxes_.emplace_back(part + staged, topology_.local_size, options_.staging_bytes);
  }
  RankCell& own = *memory.cells[static_cast<std::size_t>(topology_.local_rank)];
  own.job_rank = keeping_->job_rank();
  own.process_namespace = own_process_namespace();
  own.process = ::getpid();
  memory.owner = std::move(stage);
  node_memory_ = memory;
  node_group_ = std::make_shared<NodeGroup>(
      topology_.local_rank, std::move(memory), segments_,
      NodeGroupOptions{.staging_bytes = options_.staging_bytes,
                       .whole_limit_bytes = options_.whole_limit_bytes});
  keeping_->add(node_group_);
  node_group_->execute(CollectiveCall::of(Collective::barrier));  // every rank has said who it is
  if (topology_.nodes > 1) start_between_nodes();
}

void MpiBackend::start_between_nodes() {
  const bool has_slice = topology_.local_rank < topology_.smallest_node();
  if (!objects_->is_cut)
    objects_->across = objects_->all.split(has_slice ? topology_.local_rank : -1);
  objects_->is_cut = true;
  if (has_slice && !objects_->across_collectives)
    objects_->across_collectives.emplace(objects_->across.get(), options_.largest_count, look());
}

void MpiBackend::start_transfers() {
  if (!transfer_thread_) {
    transfer_thread_ = std::make_shared<TransferThread>(keeping_->job_rank(), bells_of_node());
  }
  const auto near = make_node_line();
  const bool is_near_only = near && is_one_node();
  const auto far =
      is_near_only ? nullptr : make_mpi_line(*objects_, options_.largest_count, *keeping_);
  std::vector<std::shared_ptr<TransferLine>> lines;
  for (const int node : topology_.node_of_rank)
    lines.push_back(near && node == topology_.node ? near : far);
  const bool is_driven_by_waiters =
      !is_near_only && keeping_->rules().level < ThreadLevel::multiple;
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
std::shared_ptr<TransferLine> MpiBackend::make_node_line() const {
  if (mailboxes_.empty() || !transfer_thread_->bell_of(keeping_->job_rank())) return nullptr;
  NodeLineMemory memory;
  memory.mailboxes = mailboxes_;
  memory.ranks = ranks_of_node();
  for (const int rank : memory.ranks) {
    memory.bells.push_back(transfer_thread_->bell_of(job_ranks_[static_cast<std::size_t>(rank)]));
  }
  memory.control = node_memory_;
  return std::make_shared<NodeLine>(topology_.local_rank, std::move(memory), segments_);
}

void MpiBackend::leave() noexcept {
  if (transfers_) transfers_->end();
  if (node_group_) node_group_->leave();
}

// Whether any call here leads to one of MPI's, which threads of kolo's own may not be allowed.
bool MpiBackend::needs_mpi() const {
  return !is_one_node() && topology_.size > 1;
}

Capabilities MpiBackend::capabilities() const {
  const MpiRules& rules = keeping_->rules();
  Capabilities capabilities;
  capabilities.backend = "mpi";
  capabilities.thread_level = name_of(rules.level);
  capabilities.asynchronous = !needs_mpi() || rules.threads_may_call;
  capabilities.shared_memory = node_group_ != nullptr;
  capabilities.concurrent = !needs_mpi() || rules.level == ThreadLevel::multiple;
  capabilities.transport = is_one_node() ? "shared memory"
                           : node_group_ ? "shared memory inside nodes, MPI between them"
                                         : "MPI";
  return capabilities;
}

void MpiBackend::agree(const CallHeader& call) {
  guarded([&] { agree_unguarded(call); });
}

void MpiBackend::agree_unguarded(const CallHeader& call) {
  if (is_one_node()) return node_group_->agree(call);
  CollectiveCall compared;
  static_cast<CallHeader&>(compared) = call;
  compare(compared);
}

void MpiBackend::execute(const CollectiveCall& call) {
  guarded([&] {
    if (!is_one_node()) compare(call);  // in shared memory it is done where the ranks meet
    execute_unguarded(call);
  });
}

// MPI compares nothing: ranks that call different things wait for ever, or get wrong values.
void MpiBackend::compare(const CollectiveCall& call) {
  if (topology_.size == 1) return;
  compare_calls(call, topology_.rank, topology_.size,
                [this](const CollectiveCall& alike) { objects_->all_collectives->execute(alike); });
}

void MpiBackend::execute_unguarded(const CollectiveCall& call) {
  if (is_one_node()) return node_group_->execute(call);
  if (topology_.size == 1) return execute_alone(call);
  const bool is_average_of_integers =
      call.op == ReduceOp::average && call.type > DataType::bfloat16;
  if (call.collective == Collective::all_reduce && node_group_ && !is_average_of_integers)
    return all_reduce_over_nodes(call);
  objects_->all_collectives->execute(call);
}

void MpiBackend::all_reduce_over_nodes(const CollectiveCall& call) {
  auto& nodes = objects_->across_collectives;  // nothing on a rank without a slice
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

// Through the cells in which the ranks meet.
SharedSegments::Agreement MpiBackend::agreement() {
  return {.name_of_first =
              [this](const std::string& name) {
                auto text = padded(name);
                node_group_->execute(CollectiveCall::broadcast(std::span(text), 0));
                return name_in(text);
              },
          .everywhere =
              [this](bool here) {
                std::uint8_t value = here ? 1 : 0;
                execute_unguarded(CollectiveCall::all_reduce(std::span(&value, 1), ReduceOp::min));
                return value == 1;
              }};
}

std::vector<std::shared_ptr<std::byte>> MpiBackend::allocate(const CallHeader& call) {
  return guarded([&] { return allocate_unguarded(call); });
}

// Out of a segment, in which each rank has a part; what is for the whole node is all of the first
// rank's, and the others have none.
std::vector<std::shared_ptr<std::byte>> MpiBackend::allocate_unguarded(const CallHeader& call) {
  const auto bytes = static_cast<std::size_t>(call.count);
  const bool is_for_node = call.collective == Collective::allocate_for_node;
  const bool is_own = call.collective == Collective::allocate;
  agree_unguarded(call);
  std::shared_ptr<SharedSegment> segment;
  if (node_group_) {
    const std::int64_t mine = is_for_node && topology_.local_rank > 0 ? 0 : call.count;
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(topology_.local_size));
    node_group_->execute(CollectiveCall::all_gather(std::span(&mine, 1), std::span(sizes)));
    segment = segments_->add(
        {sizes.begin(), sizes.end()},
        is_for_node ? SharedSegment::Room::when_written : SharedSegment::Room::at_once,
        agreement());
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

std::unique_ptr<StatusExchange> MpiBackend::status_exchange() {
  if (is_one_node() || keeping_->rules().level < ThreadLevel::multiple) return nullptr;
  if (objects_->statuses.is_empty()) objects_->statuses = objects_->all.split(0);
  return make_status_exchange(*objects_);
}

std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<const MpiRuntime> runtime,
                                          std::shared_ptr<MpiKeeping> keeping, int node_id,
                                          const MpiOptions& options) {
  RankSet set;
  set.objects = &keeping->objects_of_all();
  set.topology = find_topology(set.objects->all, node_id);
  set.job_ranks = set.objects->job_ranks;
  return std::make_shared<MpiBackend>(std::move(runtime), std::move(keeping), std::move(set),
                                      options);
}

}  // namespace kolo
