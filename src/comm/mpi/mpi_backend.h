#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "comm/mpi/mpi_keeping.h"
#include "comm/mpi/shared_segments.h"
#include "comm/shared_memory/node_group.h"
#include "comm/transfers/node_line.h"
#include "comm/transfers/transfer_desk.h"
#include "kolo/base/error.h"
#include "kolo/comm/backend.h"

namespace kolo {

// A group of ranks, as its back end begins with it.
struct RankSet {
  Topology topology;
  std::vector<int> job_ranks;     // by rank
  MpiObjects* objects = nullptr;  // kept; none: its ranks meet in shared memory alone
  // That memory, where there are no objects and more than one rank.
  std::shared_ptr<SharedSegments> segments;
  std::shared_ptr<SharedSegment> stage;
};

// Ranks as processes of an MPI job. On one node everything goes through shared memory; over
// several, all-reduce uses it inside each node and MPI between the ranks that own the same slice,
// and the other collectives are MPI's.
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
  [[nodiscard]] std::unique_ptr<StatusExchange> status_exchange() override;
  [[nodiscard]] std::shared_ptr<TransferDesk> transfers() override { return transfers_; }
  void leave() noexcept override;
  void abort(int exit_code, std::string_view reason) noexcept override {
    keeping_->give_up(exit_code, reason);
  }
  [[nodiscard]] bool ends_processes() const override {
    return keeping_->rules().failure_ends_processes;
  }
  [[nodiscard]] bool is_broken() const override {
    return keeping_->is_over() || (node_group_ && node_group_->is_aborted());
  }

 private:
  // Who is in which set of a split.
  struct Members {
    int color = 0;
    int key = 0;
    std::vector<int> ranks;  // here, of the own set, in its order; none: in no set

    [[nodiscard]] bool is_in_set() const { return !ranks.empty(); }
  };

  void start_node_stage();
  void use_stage(std::shared_ptr<SharedSegment> stage);
  void start_between_nodes();
  void start_transfers();
  [[nodiscard]] std::shared_ptr<SharedSegment> make_stage();
  [[nodiscard]] static std::size_t stage_bytes(int local_size, const MpiOptions& options);
  [[nodiscard]] std::vector<int> ranks_of_node() const;
  [[nodiscard]] std::vector<int> far_ranks() const;
  [[nodiscard]] std::vector<std::shared_ptr<Bell>> bells_of_node() const;
  [[nodiscard]] std::shared_ptr<TransferLine> make_node_line() const;
  [[nodiscard]] std::function<void()> look() const;
  void execute_unguarded(const CollectiveCall& call);
  void agree_unguarded(const CallHeader& call);
  void compare(const CollectiveCall& call);
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

// Who learns that the session is broken tells the others, where this thread may call MPI.
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

}  // namespace kolo
