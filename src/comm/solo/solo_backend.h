#pragma once

#include "kolo/comm/backend.h"

namespace kolo {

// One rank: every reduction is the value itself.
class SoloBackend final : public Backend {
 public:
  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override;
  void all_reduce(const Buffer&, ReduceOp, int) override {}
  void broadcast(const Buffer&, int) override {}
  void all_gather(const ConstBuffer& input, const Buffer& output) override;
  void all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                         std::span<const std::int64_t> counts) override;
  void reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp, int) override;
  void all_to_all(const ConstBuffer& input, std::span<const std::int64_t> send_counts,
                  const Buffer& output, std::span<const std::int64_t> receive_counts) override;
  void barrier() override {}
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate_shared(std::size_t bytes) override;
  [[nodiscard]] std::shared_ptr<std::byte> allocate_for_node(std::size_t bytes) override;
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override;
  void abort(int) noexcept override {}

 private:
  Topology topology_;
};

}  // namespace kolo
