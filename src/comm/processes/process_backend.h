#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "comm/shared_memory/node_sets.h"
#include "comm/shared_memory/node_stage.h"
#include "comm/transfers/transfer_desk.h"
#include "kolo/comm/backend.h"

namespace kolo {

// Ranks as processes of one machine that kolo has started. Everything goes through memory that they
// share.
class ProcessBackend final : public Backend {
 public:
  // A set of more than one rank has its stage. `transfer_thread`: none: this is the job's first
  // group, which makes it. Collective over the set.
  ProcessBackend(RankSet set, const NodeGroupOptions& options,
                 std::shared_ptr<TransferThread> transfer_thread = nullptr);

  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override;

  void execute(const CollectiveCall& call) override;
  void agree(const CallHeader& call) override;
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override;
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override;
  [[nodiscard]] std::shared_ptr<TransferDesk> transfers() override { return transfers_; }
  void leave() noexcept override;
  // kolo, which has started the ranks, ends the others.
  void abort(int exit_code, std::string_view reason) noexcept override;
  [[nodiscard]] bool ends_processes() const override { return true; }
  [[nodiscard]] bool is_broken() const override { return stage_ && stage_->group()->is_aborted(); }

 private:
  Topology topology_;
  std::vector<int> job_ranks_;
  NodeGroupOptions options_;
  std::unique_ptr<NodeStage> stage_;  // none: there is one rank
  std::shared_ptr<TransferThread> transfer_thread_;
  std::shared_ptr<TransferDesk> transfers_;
};

}  // namespace kolo
