#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include <torch/types.h>

#include "kolo/train/checkpoint/safetensors.h"

// Memory for copies of a training's tensors, which are written to disk while it goes on training.
namespace kolo {

// A region that is used for every snapshot: on the host in huge pages where the system has them,
// already in the process's hands, so that a copy goes at memory speed; for a CUDA device pinned.
//
// One thread at a time. Copies keep the region alive, but clear() hands it to the next ones.
class SnapshotMemory {
 public:
  // Bytes that copies of these tensors take, gaps between them included.
  [[nodiscard]] static std::uint64_t bytes_for(std::span<const NamedTensor> tensors);

  // Makes of memory one that a device copies to by itself. Error where that is impossible.
  using Pin = std::function<std::shared_ptr<std::byte>(std::shared_ptr<std::byte>, std::size_t)>;

  // Takes memory, in the time that the system needs to clear it. None where the machine has not
  // enough left, also for `besides` bytes that others are about to take. With `pin`, the memory is
  // pinned if possible.
  [[nodiscard]] static std::optional<SnapshotMemory> get(std::uint64_t bytes,
                                                         std::uint64_t besides = 0,
                                                         const Pin& pin = nullptr);

  // Makes room: the next copy() overwrites the copies before.
  void clear() { used_ = 0; }

  // Copy on the host, with the strides of the original where that is dense. Of a tensor on a device
  // it is there after wait(). Error when the region is full.
  [[nodiscard]] torch::Tensor copy(const torch::Tensor& tensor);

  // Waits for copies from `device` that were enqueued in its current stream.
  static void wait(const torch::Device& device);

  [[nodiscard]] std::uint64_t bytes() const;

 private:
  explicit SnapshotMemory(torch::Tensor region) : region_(std::move(region)) {}
  [[nodiscard]] torch::Tensor room_for(const torch::Tensor& dense);

  torch::Tensor region_;  // bytes
  std::uint64_t used_ = 0;
};

}  // namespace kolo
