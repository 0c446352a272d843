#pragma once

#include "kolo/comm/backend.h"

namespace kolo {

// One rank: every reduction is the value itself.
class SoloBackend final : public Backend {
 public:
  [[nodiscard]] const Topology& topology() const override { return topology_; }
  [[nodiscard]] Capabilities capabilities() const override;
  void all_reduce(const Buffer&, ReduceOp) override {}
  void broadcast(const Buffer&, int) override {}
  void all_gather(const ConstBuffer& input, const Buffer& output) override;
  void reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp) override;
  void barrier() override {}
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  void abort(int) noexcept override {}

 private:
  Topology topology_;
};

}  // namespace kolo
