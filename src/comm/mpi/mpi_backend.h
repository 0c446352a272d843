#pragma once

#include <memory>
#include <optional>

#include "comm/mpi/mpi_objects.h"
#include "comm/shared_memory/node_group.h"
#include "kolo/comm/backend.h"

namespace kolo {

// Ranks as processes of an MPI job. On one node everything goes through shared memory; over
// several, all-reduce uses it inside each node and MPI between the ranks that own the same slice,
// and the other collectives are MPI's.
class MpiBackend final : public Backend {
 public:
  // The ranks of a group; node_id is equal for ranks on the same node and different otherwise.
  MpiBackend(std::shared_ptr<MpiKeeping> keeping, MpiGroup group, int node_id,
             const MpiOptions& options);

  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override;

  void all_reduce(const Buffer& buffer, ReduceOp op, int divisor) override;
  void broadcast(const Buffer& buffer, int root) override;
  void all_gather(const ConstBuffer& input, const Buffer& output) override;
  void all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                         std::span<const std::int64_t> counts) override;
  void reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op,
                      int divisor) override;
  void all_to_all(const ConstBuffer& input, std::span<const std::int64_t> send_counts,
                  const Buffer& output, std::span<const std::int64_t> receive_counts) override;
  void barrier() override;
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate_shared(std::size_t bytes) override;
  [[nodiscard]] std::shared_ptr<std::byte> allocate_for_node(std::size_t bytes) override;
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override;
  [[nodiscard]] std::unique_ptr<StatusExchange> status_exchange() override;
  void abort(int exit_code) noexcept override;

 private:
  void start_node_stage();
  [[nodiscard]] std::optional<std::size_t> on_all_ranks(std::optional<std::size_t> window) const;
  [[nodiscard]] bool all_ranks(bool mine) const;
  [[nodiscard]] bool is_one_node() const { return node_group_ && topology_.nodes == 1; }

  std::shared_ptr<MpiKeeping> keeping_;
  MpiOptions options_;
  MpiObjects& objects_;  // kept
  Topology topology_;
  std::optional<NodeGroup> node_group_;
};

}  // namespace kolo
