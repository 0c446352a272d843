#pragma once

#include <memory>
#include <vector>

#include "comm/shared_memory/node_group.h"
#include "kolo/comm/backend.h"
#include "kolo/comm/threads.h"

namespace kolo {

// What the threads of a group share. Sets of ranks made from it have its abort cell: a rank that
// gives up ends the waiting in all of them.
struct ThreadMemory {
  ThreadMemory(int ranks, std::size_t staging_bytes, std::shared_ptr<AbortCell> parents_abort);

  std::shared_ptr<AbortCell> abort;
  std::vector<RankCell> cells;
  std::vector<std::shared_ptr<std::byte>> staging;
  std::vector<std::shared_ptr<void>> offered;  // by rank, what it shows the others
};

// Ranks as threads of one process.
class ThreadBackend final : public Backend {
 public:
  // The job's rank `job_rank`, in a group of this topology.
  ThreadBackend(int job_rank, Topology topology, std::shared_ptr<ThreadMemory> memory,
                const ThreadRanksOptions& options);

  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override;
  void all_reduce(const Buffer& buffer, ReduceOp op, int divisor) override {
    group_.all_reduce(buffer, op, divisor);
  }
  void broadcast(const Buffer& buffer, int root) override { group_.broadcast(buffer, root); }
  void all_gather(const ConstBuffer& input, const Buffer& output) override {
    group_.all_gather(input, output);
  }
  void all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                         std::span<const std::int64_t> counts) override {
    group_.all_gather_uneven(input, output, counts);
  }
  void reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op,
                      int divisor) override {
    group_.reduce_scatter(input, output, op, divisor);
  }
  void all_to_all(const ConstBuffer& input, std::span<const std::int64_t> send_counts,
                  const Buffer& output, std::span<const std::int64_t> receive_counts) override {
    group_.all_to_all(input, send_counts, output, receive_counts);
  }
  void barrier() override { group_.barrier(); }
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate_shared(std::size_t bytes) override;
  [[nodiscard]] std::shared_ptr<std::byte> allocate_for_node(std::size_t bytes) override;
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override;
  void leave() noexcept override { group_.leave(); }
  void abort(int) noexcept override { group_.abort(); }

 private:
  template <typename T>
  std::vector<std::shared_ptr<T>> exchange(Collective collective, std::int64_t count,
                                           std::shared_ptr<T> mine);

  int job_rank_;
  Topology topology_;
  std::shared_ptr<ThreadMemory> memory_;
  ThreadRanksOptions options_;
  NodeGroup group_;
};

}  // namespace kolo
