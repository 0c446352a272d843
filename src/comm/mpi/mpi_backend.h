#pragma once

#include <memory>

#include "comm/mpi/mpi_keeping.h"
#include "comm/mpi/shared_segments.h"
#include "comm/shared_memory/node_group.h"
#include "kolo/comm/backend.h"

namespace kolo {

// Ranks as processes of an MPI job. On one node everything goes through shared memory; over
// several, all-reduce uses it inside each node and MPI between the ranks that own the same slice,
// and the other collectives are MPI's.
class MpiBackend final : public Backend {
 public:
  // The ranks of a group; node_id is equal for ranks on the same node and different otherwise.
  MpiBackend(std::shared_ptr<const MpiRuntime> runtime, std::shared_ptr<MpiKeeping> keeping,
             MpiGroup group, int node_id, const MpiOptions& options);

  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override;

  void execute(const CollectiveCall& call) override;
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override;
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override;
  [[nodiscard]] std::unique_ptr<StatusExchange> status_exchange() override;
  void leave() noexcept override;
  void abort(int exit_code) noexcept override { keeping_->abort(exit_code); }

 private:
  void start_node_stage();
  void all_reduce_over_nodes(const CollectiveCall& call);
  [[nodiscard]] bool is_one_node() const { return node_group_ && topology_.nodes == 1; }

  std::shared_ptr<const MpiRuntime> runtime_;  // the last to go
  std::shared_ptr<MpiKeeping> keeping_;
  MpiOptions options_;
  MpiObjects& objects_;  // kept
  Topology topology_;
  std::shared_ptr<SharedSegments> segments_;
  std::shared_ptr<NodeGroup> node_group_;  // none: this node's ranks share no memory
};

}  // namespace kolo
