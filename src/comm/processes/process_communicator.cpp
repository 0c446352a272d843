#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/executor.h"
#include "comm/job.h"
#include "comm/messages.h"
#include "comm/processes/process_region.h"
#include "comm/shared_memory/node_segment.h"
#include "comm/solo/alone.h"
#include "comm/transfers/transfer_desk.h"
#include "comm/watch/watch.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/comm/backend.h"
#include "kolo/comm/launcher.h"
#include "kolo/comm/processes.h"

namespace kolo {

namespace {

// Communicators of one process: one as a rule, tests make several.
constexpr int most_meetings = 16;

std::size_t staging_bytes(int ranks) {
  return std::max<std::size_t>(4096, std::size_t{128} * static_cast<std::size_t>(ranks));
}

}  // namespace

// Parts of the first meeting by rank, then those of the second, and so on.
std::vector<std::size_t> ProcessRegion::sizes() const {
  return std::vector<std::size_t>(static_cast<std::size_t>(most_meetings * ranks_),
                                  bytes_to_meet(staging_bytes(ranks_)));
}

ProcessRegion::ProcessRegion(int ranks) : ranks_(ranks) {
  for (const auto source : {SharedSegment::Source::anonymous, SharedSegment::Source::dev_shm}) {
    memory_ = std::make_shared<SharedSegment>(0, sizes(), SharedSegment::Room::when_written);
    offer_ = memory_->create(source);
    // As a rank does: /proc may be missing.
    SharedSegment mapping(0, sizes(), SharedSegment::Room::when_written);
    if (!offer_.address.empty() && mapping.open(offer_.address)) return;
  }
  throw Error(
      "comm: there is no memory that ranks could share: neither an anonymous file, which takes "
      "/proc, nor one in /dev/shm");
}

ProcessRegion::ProcessRegion() : ranks_(1) {
  const auto rank = parse_number<int>(environment_variable(process_rank_variable).value_or(""));
  const auto ranks = parse_number<int>(environment_variable(process_ranks_variable).value_or(""));
  const auto memory = environment_variable(process_memory_variable);
  if (!rank || !ranks || !memory || *rank < 0 || *rank >= *ranks) {
    throw InputError(
        "comm: kolo has not started this process as one of several ranks; start it by kolo run "
        "--launcher processes -n RANKS PROGRAM");
  }
  rank_ = *rank;
  ranks_ = *ranks;
  memory_ = std::make_shared<SharedSegment>(0, sizes(), SharedSegment::Room::when_written);
  if (memory_->open(*memory)) return;
  throw Error(fmt::format(
      "comm: rank {} can't reach the memory that the ranks share, {}; the process that started it "
      "has ended, or is in another container",
      rank_, *memory));
}

std::vector<std::pair<std::string, std::string>> ProcessRegion::environment(int rank) const {
  return {{process_rank_variable, std::to_string(rank)},
          {process_ranks_variable, std::to_string(ranks_)},
          {process_memory_variable, offer_.address}};
}

NodeGroup ProcessRegion::next_meeting() {
  for (int meeting = 0; meeting < most_meetings; ++meeting) {
    std::vector<std::byte*> areas;
    for (int rank = 0; rank < ranks_; ++rank)
      areas.push_back(memory_->area(meeting * ranks_ + rank));
    const int process = process_of(areas[static_cast<std::size_t>(rank_)]);
    if (process == ::getpid()) continue;
    if (process != 0) {
      throw StateError(fmt::format(
          "comm: process {} has joined the job as rank {} already; of a rank's processes one alone "
          "may call kolo::initialize()",
          process, rank_));
    }
    return {rank_, take_area(areas, memory_, rank_, rank_), std::make_shared<SharedSegments>(rank_),
            NodeGroupOptions{.staging_bytes = staging_bytes(ranks_)}};
  }
  throw StateError(
      fmt::format("comm: this process has made {} communicators of its job's ranks; make one, and "
                  "hand it on",
                  most_meetings));
}

namespace {

// Ranks as processes of one machine that kolo has started, over memory that they share.
class ProcessBackend final : public Backend {
 public:
  // A set of several ranks has its segment. `transfer_thread`: none for the job's first group,
  // which makes it. Collective over the set.
  ProcessBackend(RankSet set, const NodeGroupOptions& options,
                 std::shared_ptr<TransferThread> transfer_thread = nullptr)
      : topology_(std::move(set.topology)),
        job_ranks_(std::move(set.job_ranks)),
        options_(options),
        transfer_thread_(std::move(transfer_thread)) {
    if (!set.segment) return;
    const int job_rank = job_ranks_[static_cast<std::size_t>(topology_.rank)];
    segment_ = std::make_unique<NodeSegment>(topology_, job_rank, std::move(set.segments),
                                             std::move(set.segment), options_);
    // Waits until all have said who they are.
    segment_->group()->execute(CollectiveCall::of(Collective::barrier));
    if (!transfer_thread_)
      transfer_thread_ = std::make_shared<TransferThread>(job_rank, segment_->bells());
    const auto line = segment_->make_line(job_ranks_, *transfer_thread_);
    transfers_ = std::make_shared<TransferDesk>(
        topology_.rank, std::vector(job_ranks_.size(), line), transfer_thread_, false);
    transfer_thread_->add(transfers_);
  }

  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override {
    return {.backend = "processes",
            .transport = "shared memory",
            .shared_memory = segment_ != nullptr,
            .concurrent = true};
  }

  void execute(const CollectiveCall& call) override {
    if (!segment_) return execute_alone(call);
    segment_->group()->execute(call);
  }
  void agree(const CallHeader& call) override {
    if (segment_) segment_->group()->agree(call);
  }
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override {
    if (!segment_) return NodeSegment::allocate_alone(call);
    agree(call);
    return segment_->allocate(call, [this](const CollectiveCall& each) { execute(each); });
  }
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override {
    agree(CollectiveCall::of(Collective::split));
    const Execute execute_here = [this](const CollectiveCall& call) { execute(call); };
    auto set = gather_set(topology_, job_ranks_, color, key, execute_here);
    if (!make_segment_of(set, topology_, options_.staging_bytes, execute_here))
      throw Error("comm: split: there is no memory that the ranks of a set could share");
    if (!set.has_this_rank()) return nullptr;
    return std::make_shared<ProcessBackend>(std::move(set), options_, transfer_thread_);
  }

  [[nodiscard]] std::shared_ptr<TransferDesk> transfers() override { return transfers_; }
  void leave() noexcept override {
    if (!segment_) return;
    transfers_->end();
    segment_->group()->leave();
  }
  // Ends this process; kolo, which has started the ranks, ends the others. A rank that ends because
  // another has given up has that one's status, so the job's says what was wrong, whoever is first.
  void abort(int exit_code, std::string_view reason) noexcept override {
    if (segment_) exit_code = segment_->group()->abort(reason, exit_code);
    ::_exit(exit_code);
  }
  [[nodiscard]] bool ends_processes() const override { return true; }
  [[nodiscard]] bool is_broken() const override {
    return segment_ && segment_->group()->is_aborted();
  }

 private:
  Topology topology_;
  std::vector<int> job_ranks_;
  NodeGroupOptions options_;
  std::unique_ptr<NodeSegment> segment_;  // none: there is one rank
  std::shared_ptr<TransferThread> transfer_thread_;
  std::shared_ptr<TransferDesk> transfers_;
};

// State of the job that a process needs at its end.
struct ProcessJob {
  pid_t process = ::getpid();
  std::thread::id main_thread = std::this_thread::get_id();
  std::weak_ptr<Backend> backend;
  BackgroundThreads threads;
};

// Ends the threads in the background. Not in a rank that fails, for which nobody waits, nor where
// it would wait for itself.
void end_at_exit(int status, void* given) {
  const auto& job = *static_cast<const ProcessJob*>(given);
  if (::getpid() != job.process || status != 0) return;
  const auto reason = Executor::what_forbids_end(job.main_thread != std::this_thread::get_id(),
                                                 "has made the communicator");
  if (!reason.empty()) {
    const auto backend = job.backend.lock();
    if (!backend || backend->topology().size == 1) return;
    return print_line(fmt::format(
        "rank {}: the program ends with status 0, but {}, so the other ranks take it for gone; "
        "return from main() instead",
        backend->topology().rank, reason));
  }
  job.threads.end("comm: the process ends, so there is no communication any more", true);
  if (const auto backend = job.backend.lock()) backend->leave();
}

RankSet all_ranks(const ProcessRegion& region) {
  std::vector<int> ranks(static_cast<std::size_t>(region.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {.members = ranks,
          .topology = Topology::from_node_ids(region.rank(), std::vector<int>(ranks.size())),
          .job_ranks = ranks};
}

Communicator make_communicator(const std::shared_ptr<ProcessBackend>& backend,
                               const MpiOptions& options) {
  auto job = std::make_unique<ProcessJob>();
  job->backend = backend;
  auto communicator = make_job_communicator(backend, options, job->threads);
  if (::on_exit(end_at_exit, job.get()) == 0) (void)job.release();  // it is the process's now
  return communicator;
}

}  // namespace

Communicator process_communicator(const MpiOptions& given) {
  open_standard_streams();
  MpiOptions options = with_environment(given);
  if (!options.ranks_on_nodes.empty())
    throw Error("comm: MpiOptions::ranks_on_nodes is for ranks under MPI, or threads");
  ProcessRegion region;
  const StartWatch watch(options.watch,
                         fmt::format("rank {} of {}", region.rank(), region.ranks()));
  auto set = all_ranks(region);
  if (region.ranks() > 1) {
    auto meeting = region.next_meeting();
    const Execute execute = [&](const CollectiveCall& call) { meeting.execute(call); };
    execute(CollectiveCall::of(Collective::barrier));
    const auto broadcast = [&](std::span<std::byte> bytes) {
      const Buffer buffer(bytes.data(), narrow<std::int64_t>(bytes.size()), DataType::uint8);
      if (!bytes.empty()) execute(CollectiveCall::broadcast(buffer, 0));
    };
    options = with_options_of_rank_0(broadcast, options);
    if (!make_segment_of(set, set.topology, options.staging_bytes, execute)) {
      throw Error(
          "comm: the ranks can't share memory: there is no room for it, or a rank can't open it "
          "through /proc");
    }
  }
  const NodeGroupOptions of_group{.staging_bytes = options.staging_bytes,
                                  .whole_limit_bytes = options.whole_limit_bytes};
  return make_communicator(std::make_shared<ProcessBackend>(std::move(set), of_group), options);
}

Communicator job_communicator(const MpiOptions& options) {
  const bool is_process = detect_launch_environment().started_by == StartedBy::kolo;
  return is_process ? process_communicator(options) : mpi_communicator(options);
}

}  // namespace kolo
