#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <string>
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
#include "comm/solo/alone.h"
#include "comm/transfers/node_line.h"
#include "comm/transfers/transfer_desk.h"
#include "comm/transfers/transfer_thread.h"
#include "comm/watch/event_block.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

Topology find_topology(const MpiGroup& group, int node_id) {
  std::vector<int> ids(static_cast<std::size_t>(group.size()));
  check_mpi(MPI_Allgather(&node_id, 1, MPI_INT, ids.data(), 1, MPI_INT, group.get()),
            "MPI_Allgather");
  return Topology::from_node_ids(group.rank(), ids);
}

// Names of segments' files travel as so many bytes.
constexpr std::size_t name_bytes = 64;
using PaddedName = std::array<std::uint8_t, name_bytes>;

PaddedName padded(const std::string& name) {
  PaddedName text{};
  std::copy_n(name.begin(), std::min(name.size(), name_bytes - 1), text.begin());
  return text;
}

std::string name_in(const PaddedName& text) {
  return {text.begin(), std::find(text.begin(), text.end(), std::uint8_t{0})};
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

// A group of ranks, as its back end begins with it.
struct RankSet {
  Topology topology;
  std::vector<int> job_ranks;     // by rank
  MpiObjects* objects = nullptr;  // kept; none: its ranks meet in shared memory alone
  // That memory, where there are no objects and more than one rank.
  std::shared_ptr<SharedSegments> segments;
  std::shared_ptr<SharedSegment> stage;
};

class MpiBackend final : public Backend {
 public:
  // `transfer_thread`: none: this is the job's first, which makes it.
  MpiBackend(std::shared_ptr<const MpiRuntime> runtime, std::shared_ptr<MpiKeeping> keeping,
             RankSet set, const MpiOptions& options,
             std::shared_ptr<TransferThread> transfer_thread = nullptr);
  MpiBackend(const MpiBackend&) = delete;
  MpiBackend& operator=(const MpiBackend&) = delete;
  ~MpiBackend() override;

  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override;

  void execute(const CollectiveCall& call) override;
  void agree(const CallHeader& call) override;
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override;
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override;
  [[nodiscard]] bool moves_memory_of(const DeviceRuntime& runtime) const override;
  void move(const CollectiveCall& call) override { objects_->all_collectives->execute(call); }
  [[nodiscard]] std::unique_ptr<StatusExchange> status_exchange() override;
  [[nodiscard]] std::shared_ptr<TransferDesk> transfers() override { return transfers_; }
  void leave() noexcept override;
  void abort(int exit_code, std::string_view reason) noexcept override {
    keeping_->give_up(exit_code, reason);
  }
  [[nodiscard]] bool ends_processes() const override {
    return keeping_->rules().failure_ends_processes;
  }

 private:
  struct Members;

  void start_node_stage();
  void use_stage(std::shared_ptr<SharedSegment> stage);
  void start_between_nodes();
  void start_transfers();
  [[nodiscard]] std::shared_ptr<SharedSegment> make_stage();
  [[nodiscard]] static std::size_t stage_bytes(int local_size, const MpiOptions& options);
  [[nodiscard]] std::vector<int> ranks_of_node() const;
  [[nodiscard]] std::vector<std::shared_ptr<Bell>> bells_of_node() const;
  [[nodiscard]] std::shared_ptr<TransferLine> make_node_line() const;
  [[nodiscard]] std::function<void()> look() const;
  void execute_unguarded(const CollectiveCall& call);
  void all_reduce_over_nodes(const CollectiveCall& call);
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate_unguarded(const CallHeader& call);
  [[nodiscard]] SharedSegments::Agreement agreement();
  [[nodiscard]] Members gather_members(int color, int key);
  [[nodiscard]] std::shared_ptr<Backend> split_unguarded(int color, int key);
  [[nodiscard]] bool make_stage_of(const Members& members, RankSet& set);
  void take_objects(const Members& members, RankSet& set);
  template <typename T>
  [[nodiscard]] std::vector<T> gather(std::span<const T> mine);
  template <typename Function>
  auto guarded(const Function& function);
  [[nodiscard]] bool is_one_node() const { return node_group_ && topology_.nodes == 1; }
  [[nodiscard]] bool needs_mpi() const;

  std::shared_ptr<const MpiRuntime> runtime_;  // the last to go; none: MPI is the program's
  std::shared_ptr<MpiKeeping> keeping_;
  MpiOptions options_;
  MpiObjects* objects_;
  Topology topology_;
  std::vector<int> job_ranks_;
  std::shared_ptr<SharedSegments> segments_;
  std::shared_ptr<NodeGroup> node_group_;  // none: this node's ranks share no memory
  NodeMemory node_memory_;
  std::vector<NodeMailbox> mailboxes_;  // by local rank, in the same memory
  std::shared_ptr<TransferThread> transfer_thread_;
  std::shared_ptr<TransferDesk> transfers_;  // none: there is one rank
};

// Who is in which set of a split.
struct MpiBackend::Members {
  int color = 0;
  int key = 0;
  std::vector<int> colors;  // by rank here
  std::vector<int> ranks;   // here, of the own set, in its order; none: in no set

  [[nodiscard]] bool is_in_set() const { return !ranks.empty(); }
};

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
}

MpiBackend::~MpiBackend() {
  if (objects_) objects_->is_used = false;
}

// What ends a wait in MPI before the others come: of a session its end.
std::function<void()> MpiBackend::look() const {
  if (!keeping_->rules().is_session) return nullptr;
  return [keeping = keeping_.get()] { keeping->look(); };  // which keeps who asks
}

// A rank of a set that is broken calls nothing any more, and who learns of it tells the others.
template <typename Function>
auto MpiBackend::guarded(const Function& function) {
  if (!keeping_->rules().is_session) return function();
  keeping_->check();
  try {
    return function();
  } catch (const BrokenGroupError& error) {
    keeping_->break_session(error.reason());
    throw;
  } catch (const MpiError& error) {
    keeping_->break_session(fmt::format("rank {}: {}", keeping_->job_rank(), error.what()));
    throw CommunicationError(error.what());
  }
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
  own.process = own_process();
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
  return options_.devices.channel == DeviceChannelKind::mpi ||
         !(is_one_node() || topology_.size == 1);
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

bool MpiBackend::moves_memory_of(const DeviceRuntime& runtime) const {
  // Where waits may end early, collectives go through memory of the host.
  return !keeping_->rules().is_session && objects_ != nullptr &&
         (!runtime.needs_aware_mpi() || is_cuda_aware_mpi());
}

void MpiBackend::agree(const CallHeader& call) {
  if (!is_one_node()) return;
  guarded([&] { node_group_->agree(call); });
}

void MpiBackend::execute(const CollectiveCall& call) {
  guarded([&] { execute_unguarded(call); });
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

template <typename T>
std::vector<T> MpiBackend::gather(std::span<const T> mine) {
  std::vector<T> all(mine.size() * static_cast<std::size_t>(topology_.size));
  execute_unguarded(CollectiveCall::all_gather(mine, std::span(all)));
  return all;
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
  if (is_one_node()) node_group_->agree(call);
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

std::shared_ptr<Backend> MpiBackend::split(int color, int key) {
  return guarded([&] { return split_unguarded(color, key); });
}

MpiBackend::Members MpiBackend::gather_members(int color, int key) {
  const std::array<std::int32_t, 2> mine = {std::max(color, -1), key};
  const auto all = gather(std::span<const std::int32_t>(mine));
  Members members{.color = mine[0], .key = key, .colors = {}, .ranks = {}};
  for (int rank = 0; rank < topology_.size; ++rank) {
    members.colors.push_back(all[2 * static_cast<std::size_t>(rank)]);
    if (color >= 0 && members.colors.back() == color) members.ranks.push_back(rank);
  }
  const auto key_of = [&](int rank) { return all[2 * static_cast<std::size_t>(rank) + 1]; };
  std::ranges::stable_sort(members.ranks, {}, key_of);
  return members;
}

// Ranks that meet in shared memory make the memory of a set without MPI; where there is no room
// for it, and over several nodes, a set has communicators of MPI's.
std::shared_ptr<Backend> MpiBackend::split_unguarded(int color, int key) {
  if (is_one_node()) node_group_->agree(CollectiveCall::of(Collective::split));
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
    const auto begin = names.begin() + members.ranks.front() * std::ptrdiff_t{name_bytes};
    PaddedName first{};
    std::copy_n(begin, name_bytes, first.begin());
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

std::unique_ptr<StatusExchange> MpiBackend::status_exchange() {
  if (is_one_node() || keeping_->rules().level < ThreadLevel::multiple) return nullptr;
  if (objects_->statuses.is_empty()) objects_->statuses = objects_->all.split(0);
  return std::make_unique<MpiStatusExchange>(objects_->statuses, objects_->status_messages);
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
