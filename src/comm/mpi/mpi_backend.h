#pragma once

#include <memory>
#include <optional>

#include "comm/mpi/mpi_collectives.h"
#include "comm/mpi/mpi_runtime.h"
#include "comm/mpi/shared_windows.h"
#include "comm/shared_memory/node_group.h"
#include "kolo/comm/backend.h"

namespace kolo {

// Ranks as processes of an MPI job. On one node everything goes through shared memory; over
// several, all-reduce uses it inside each node and MPI between the ranks that own the same slice,
// and the other collectives are MPI's.
class MpiBackend final : public Backend, public std::enable_shared_from_this<MpiBackend> {
 public:
  MpiBackend(std::shared_ptr<const MpiRuntime> runtime, const MpiOptions& options);

  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override;

  void all_reduce(const Buffer& buffer, ReduceOp op) override;
  void broadcast(const Buffer& buffer, int root) override;
  void all_gather(const ConstBuffer& input, const Buffer& output) override;
  void reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op) override;
  void barrier() override;
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  void abort(int exit_code) noexcept override;

 private:
  void start_node_stage(const MpiOptions& options);
  [[nodiscard]] bool all_ranks(bool mine) const;
  [[nodiscard]] bool is_one_node() const { return node_group_ && topology_.nodes == 1; }

  // Destroyed from the bottom up: what uses a communicator goes before it, and MPI last.
  std::shared_ptr<const MpiRuntime> runtime_;
  MpiGroup world_;
  Topology topology_;
  MpiGroup node_;  // the ranks of this node
  MpiGroup
      across_;  // the ranks of all nodes that own this rank's slice; empty for a rank without one
  std::optional<MpiCollectives> world_collectives_;
  std::optional<MpiCollectives> across_collectives_;
  std::shared_ptr<SharedWindows> windows_;
  std::optional<NodeGroup> node_group_;
};

}  // namespace kolo
