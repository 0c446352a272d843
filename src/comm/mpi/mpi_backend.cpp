#include <bit>
#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/mpi/mpi_collectives.h"
#include "comm/mpi/mpi_keeping.h"
#include "comm/negotiation/negotiated_backend.h"
#include "comm/shared_memory/node_segment.h"
#include "comm/solo/alone.h"
#include "comm/transfers/transfer_desk.h"
#include "kolo/base/error.h"
#include "kolo/comm/backend.h"

namespace kolo {

namespace {

// Ranks as processes of an MPI job. On one node everything goes through shared memory; over
// several, all-reduce uses it inside each node and MPI between the ranks that own the same slice,
// and the other collectives are MPI's.
class MpiBackend final : public Backend {
 public:
  // `objects`: kept; null: the set's ranks meet in shared memory alone. `transfer_thread`: none:
  // this is the job's first, which makes it.
  MpiBackend(std::shared_ptr<const MpiRuntime> runtime, std::shared_ptr<MpiKeeping> keeping,
             RankSet set, MpiObjects* objects, const MpiOptions& options,
             std::shared_ptr<TransferThread> transfer_thread = nullptr);
  ~MpiBackend() override {
    if (objects_) objects_->is_used = false;
  }

  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override {
    const MpiRules& rules = keeping_->rules();
    Capabilities capabilities;
    capabilities.backend = "mpi";
    capabilities.thread_level = name_of(rules.level);
    capabilities.asynchronous = !needs_mpi() || rules.threads_may_call();
    capabilities.shared_memory = segment_ != nullptr;
    capabilities.concurrent = capabilities.asynchronous;
    capabilities.transport = is_one_node() ? "shared memory"
                             : segment_    ? "shared memory inside nodes, MPI between them"
                                           : "MPI";
    return capabilities;
  }

  void execute(const CollectiveCall& call) override;
  void agree(const CallHeader& call) override;
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override;
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override;
  [[nodiscard]] std::unique_ptr<StatusExchange> status_exchange() override {
    if (is_one_node() || !keeping_->rules().threads_may_call()) return nullptr;
    if (objects_->statuses.is_empty()) objects_->statuses = objects_->all.split(0);
    return make_status_exchange(*objects_);
  }
  [[nodiscard]] std::shared_ptr<TransferDesk> transfers() override { return transfers_; }
  void leave() noexcept override {
    if (transfers_) transfers_->end();
    if (segment_) node_group().leave();
  }
  void abort(int exit_code, std::string_view reason) noexcept override {
    keeping_->give_up(exit_code, reason);
  }
  [[nodiscard]] bool ends_processes() const override {
    return keeping_->rules().failure_ends_processes;
  }
  [[nodiscard]] bool is_broken() const override {
    return keeping_->is_over() || (segment_ && node_group().is_aborted());
  }

 private:
  void start_node_segment(RankSet set);
  void use_segment(const RankSet& set);
  void start_between_nodes() {
    const bool has_slice = topology_.local_rank < topology_.smallest_node();
    if (!objects_->is_cut)
      objects_->across = objects_->all.split(has_slice ? topology_.local_rank : -1);
    objects_->is_cut = true;
    if (has_slice && !objects_->across_collectives)
      objects_->across_collectives.emplace(objects_->across, options_.largest_count, look());
  }
  void start_transfers();
  // Ranks that don't notice by themselves when this one breaks the session.
  [[nodiscard]] std::vector<int> far_ranks() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < topology_.size; ++rank) {
      const bool is_near =
          segment_ && topology_.node_of_rank[static_cast<std::size_t>(rank)] == topology_.node;
      if (!is_near && rank != topology_.rank) ranks.push_back(rank);
    }
    return ranks;
  }
  // Ends a wait in MPI where a session is broken before the others come.
  [[nodiscard]] std::function<void()> look() const {
    if (!keeping_->rules().is_session) return nullptr;
    return [keeping = keeping_.get()] { keeping->look(); };  // which outlives all calls
  }
  void execute_unguarded(const CollectiveCall& call);
  void agree_unguarded(const CallHeader& call) {
    if (is_one_node()) return node_group().agree(call);
    CollectiveCall compared;
    static_cast<CallHeader&>(compared) = call;
    compare(compared);
  }
  // MPI compares nothing: ranks that call different things wait for ever, or get wrong values.
  void compare(const CollectiveCall& call) {
    if (topology_.size == 1) return;
    compare_calls(call, topology_.rank, topology_.size, [this](const CollectiveCall& alike) {
      objects_->all_collectives->execute(alike);
    });
  }
  void all_reduce_over_nodes(const CollectiveCall& call);
  [[nodiscard]] std::shared_ptr<Backend> split_unguarded(int color, int key);
  [[nodiscard]] MpiObjects* take_objects(const RankSet& set);
  template <typename Function>
  auto guarded(const Function& function);
  [[nodiscard]] bool is_one_node() const { return segment_ && topology_.nodes == 1; }
  [[nodiscard]] NodeGroup& node_group() const { return *segment_->group(); }
  // Whether any call here leads to one of MPI's, which threads of kolo's own may not be allowed.
  [[nodiscard]] bool needs_mpi() const { return !is_one_node() && topology_.size > 1; }

  // Declared first, destroyed last; none: the program owns MPI.
  std::shared_ptr<const MpiRuntime> runtime_;
  std::shared_ptr<MpiKeeping> keeping_;
  MpiOptions options_;
  MpiObjects* objects_;
  Topology topology_;
  std::vector<int> job_ranks_;
  std::unique_ptr<NodeSegment> segment_;  // none: this node's ranks share no memory
  std::shared_ptr<TransferThread> transfer_thread_;
  std::shared_ptr<TransferDesk> transfers_;  // none: there is one rank
};

// Tells the others that the session is broken, where this thread may call MPI.
template <typename Function>
auto MpiBackend::guarded(const Function& function) {
  if (!keeping_->rules().is_session) return function();
  const auto tell = [&] {
    if (needs_mpi()) keeping_->tell_others();
  };
  if (keeping_->is_over()) tell();
  keeping_->check();
  try {
    return function();
  } catch (const BrokenGroupError& error) {
    keeping_->break_session(error.reason());
    tell();
    throw;
  } catch (const MpiError& error) {
    keeping_->break_session(fmt::format("rank {}: {}", keeping_->job_rank(), error.what()));
    tell();
    throw CommunicationError(error.what());
  }
}

MpiBackend::MpiBackend(std::shared_ptr<const MpiRuntime> runtime,
                       std::shared_ptr<MpiKeeping> keeping, RankSet set, MpiObjects* objects,
                       const MpiOptions& options, std::shared_ptr<TransferThread> transfer_thread)
    : runtime_(std::move(runtime)),
      keeping_(std::move(keeping)),
      options_(options),
      objects_(objects),
      topology_(set.topology),
      job_ranks_(set.job_ranks),
      transfer_thread_(std::move(transfer_thread)) {
  if (objects_ && !objects_->all_collectives)
    objects_->all_collectives.emplace(objects_->all, options_.largest_count, look());
  if (set.segment)
    use_segment(set);
  else if (objects_ && options_.shared_memory != SharedMemory::off &&
           topology_.nodes < topology_.size)
    start_node_segment(std::move(set));
  if (topology_.size > 1) start_transfers();
  if (objects_ == &keeping_->objects_of_all()) keeping_->note_far_ranks(far_ranks());
}

// There are no cells yet in which the ranks could meet, so they agree through MPI.
void MpiBackend::start_node_segment(RankSet set) {
  set.members.resize(static_cast<std::size_t>(topology_.size));
  std::iota(set.members.begin(), set.members.end(), 0);
  const Execute execute = [this](const CollectiveCall& call) {
    objects_->all_collectives->execute(call);
  };
  if (make_segment_of(set, topology_, options_.staging_bytes, execute)) use_segment(set);
}

void MpiBackend::use_segment(const RankSet& set) {
  segment_ = std::make_unique<NodeSegment>(
      topology_, keeping_->job_rank(), set.segments, set.segment,
      NodeGroupOptions{.staging_bytes = options_.staging_bytes,
                       .whole_limit_bytes = options_.whole_limit_bytes});
  keeping_->add(segment_->group());
  node_group().execute(CollectiveCall::of(Collective::barrier));  // every rank has said who it is
  if (topology_.nodes > 1) start_between_nodes();
}

void MpiBackend::start_transfers() {
  if (!transfer_thread_) {
    transfer_thread_ = std::make_shared<TransferThread>(
        keeping_->job_rank(), segment_ ? segment_->bells() : std::vector<std::shared_ptr<Bell>>());
  }
  const auto near = segment_ ? segment_->make_line(job_ranks_, *transfer_thread_) : nullptr;
  const bool is_near_only = near && is_one_node();
  const auto far =
      is_near_only ? nullptr : make_mpi_line(*objects_, options_.largest_count, *keeping_);
  std::vector<std::shared_ptr<TransferLine>> lines;
  for (const int node : topology_.node_of_rank)
    lines.push_back(near && node == topology_.node ? near : far);
  const bool is_driven_by_waiters = !is_near_only && !keeping_->rules().threads_may_call();
  transfers_ = std::make_shared<TransferDesk>(topology_.rank, std::move(lines), transfer_thread_,
                                              is_driven_by_waiters);
  transfer_thread_->add(transfers_);
}

void MpiBackend::agree(const CallHeader& call) {
  guarded([&] { agree_unguarded(call); });
}

void MpiBackend::execute(const CollectiveCall& call) {
  guarded([&] {
    if (!is_one_node()) compare(call);  // in shared memory it is done where the ranks meet
    execute_unguarded(call);
  });
}

void MpiBackend::execute_unguarded(const CollectiveCall& call) {
  if (is_one_node()) return node_group().execute(call);
  if (topology_.size == 1) return execute_alone(call);
  const bool is_average_of_integers =
      call.op == ReduceOp::average && call.type > DataType::bfloat16;
  if (call.collective == Collective::all_reduce && segment_ && !is_average_of_integers)
    return all_reduce_over_nodes(call);
  objects_->all_collectives->execute(call);
}

void MpiBackend::all_reduce_over_nodes(const CollectiveCall& call) {
  auto& nodes = objects_->across_collectives;  // nothing on a rank without a slice
  const NodeGroup::AcrossNodes across{
      .reduce =
          [&](const Buffer& partial, const Buffer& result) {
            // The node's average is divided by the number of all ranks already.
            nodes->all_reduce_partial(partial, result,
                                      call.op == ReduceOp::average ? ReduceOp::sum : call.op);
          },
      .everywhere =
          [&](bool here) {
            return is_everywhere(here, [&](const CollectiveCall& each) { nodes->execute(each); });
          }};
  node_group().all_reduce(call, topology_.smallest_node(), &across);
}

std::vector<std::shared_ptr<std::byte>> MpiBackend::allocate(const CallHeader& call) {
  return guarded([&] {
    agree_unguarded(call);
    if (!segment_) return NodeSegment::allocate_alone(call);
    return segment_->allocate(call,
                              [this](const CollectiveCall& each) { execute_unguarded(each); });
  });
}

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
      !needs_mpi() && make_segment_of(set, topology_, options_.staging_bytes, execute);
  MpiObjects* const objects = is_made ? nullptr : take_objects(set);
  if (!set.has_this_rank()) return nullptr;
  // A few ranks need not share memory where the job's nodes do.
  MpiOptions options = options_;
  if (options.shared_memory == SharedMemory::on) options.shared_memory = SharedMemory::automatic;
  return std::make_shared<MpiBackend>(runtime_, keeping_, std::move(set), objects, options,
                                      transfer_thread_);
}

// Reuses the objects of an earlier set of the same ranks in the same order, if all of these have
// let go of it; otherwise makes new ones.
MpiObjects* MpiBackend::take_objects(const RankSet& set) {
  const bool may_call = !is_one_node() || keeping_->rules().threads_may_call();
  if (objects_ == nullptr || !may_call)
    throw Error("comm: split: the ranks of a node can't share memory for a set of them");
  std::vector<MpiObjects*> kept;
  if (set.has_this_rank()) kept = keeping_->objects_of(set.job_ranks);
  std::uint64_t used = 0;  // a bit each
  for (std::size_t i = 0; i < kept.size(); ++i) used |= std::uint64_t{kept[i]->is_used} << i;
  const auto mine = static_cast<std::int64_t>(used);
  const Execute execute = [this](const CollectiveCall& call) { execute_unguarded(call); };
  const auto all = gather(topology_.size, std::span(&mine, 1), execute);
  for (const int rank : set.members)
    used |= static_cast<std::uint64_t>(all[static_cast<std::size_t>(rank)]);
  const auto slot = static_cast<std::size_t>(std::countr_one(used));
  const bool is_new = set.has_this_rank() && slot >= kept.size();
  if (!is_everywhere(!is_new, execute)) {
    const auto made = objects_->all.split(is_new ? set.color : -1, set.key);
    if (is_new) return &keeping_->add(made, set.job_ranks);
  }
  if (!set.has_this_rank()) return nullptr;
  kept[slot]->is_used = true;
  return kept[slot];
}

Topology find_topology(const MpiGroup& group, int node_id) {
  std::vector<int> ids(static_cast<std::size_t>(group.size()));
  check_mpi(MPI_Allgather(&node_id, 1, MPI_INT, ids.data(), 1, MPI_INT, group.get()),
            "MPI_Allgather");
  return Topology::from_node_ids(group.rank(), ids);
}

}  // namespace

std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<const MpiRuntime> runtime,
                                          std::shared_ptr<MpiKeeping> keeping, int node_id,
                                          const MpiOptions& options) {
  RankSet set;
  MpiObjects& objects = keeping->objects_of_all();
  set.topology = find_topology(objects.all, node_id);
  set.job_ranks = objects.job_ranks;
  return std::make_shared<MpiBackend>(std::move(runtime), std::move(keeping), std::move(set),
                                      &objects, options);
}

}  // namespace kolo
