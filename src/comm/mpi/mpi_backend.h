#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "comm/mpi/mpi_keeping.h"
#include "comm/shared_memory/node_sets.h"
#include "comm/shared_memory/node_stage.h"
#include "comm/transfers/transfer_desk.h"
#include "kolo/base/error.h"
#include "kolo/comm/backend.h"

namespace kolo {

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
    return keeping_->is_over() || (stage_ && node_group().is_aborted());
  }

 private:
  void start_node_stage();
  void use_stage(std::shared_ptr<SharedSegments> segments, std::shared_ptr<SharedSegment> stage);
  void start_between_nodes();
  void start_transfers();
  [[nodiscard]] std::shared_ptr<SharedSegment> make_stage(SharedSegments& segments);
  [[nodiscard]] std::vector<int> far_ranks() const;
  [[nodiscard]] std::function<void()> look() const;
  void execute_unguarded(const CollectiveCall& call);
  void agree_unguarded(const CallHeader& call);
  void compare(const CollectiveCall& call);
  void all_reduce_over_nodes(const CollectiveCall& call);
  [[nodiscard]] std::shared_ptr<Backend> split_unguarded(int color, int key);
  [[nodiscard]] MpiObjects* take_objects(const RankSet& set);
  template <typename Function>
  auto guarded(const Function& function);
  [[nodiscard]] bool is_one_node() const { return stage_ && topology_.nodes == 1; }
  [[nodiscard]] NodeGroup& node_group() const { return *stage_->group(); }
  [[nodiscard]] bool needs_mpi() const;

  std::shared_ptr<const MpiRuntime> runtime_;  // the last to go; none: MPI is the program's
  std::shared_ptr<MpiKeeping> keeping_;
  MpiOptions options_;
  MpiObjects* objects_;
  Topology topology_;
  std::vector<int> job_ranks_;
  std::unique_ptr<NodeStage> stage_;  // none: this node's ranks share no memory
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
