#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <torch/types.h>

#include "kolo/train/checkpoint/safetensors.h"

// Memory for copies of a training's tensors, so that it can go on while they are written to disk.
namespace kolo {

// The worst of a tensor's values.
enum class Values { finite, infinite, nan };

// One region, which is got once and used for every snapshot: on the host in huge pages where the
// system has them, and already in the process's hands, so that a copy goes at memory speed; for
// tensors of a CUDA device pinned, so that the device writes it by itself.
//
// One thread at a time. Copies keep the region alive, but clear() hands it to the next ones.
class SnapshotMemory {
 public:
  // Bytes that copies of these tensors take, gaps between them included.
  [[nodiscard]] static std::uint64_t bytes_for(std::span<const NamedTensor> tensors);

  // Nothing where the machine has not so much left, or not so much beside what others are about to
  // take (`besides`, bytes), or doesn't give it. Takes the time that the system needs to clear it.
  [[nodiscard]] static std::optional<SnapshotMemory> get(std::uint64_t bytes,
                                                         const torch::Device& device,
                                                         std::uint64_t besides = 0);

  // The next copy() begins at the beginning: the tensors before are overwritten.
  void clear() { used_ = 0; }

  struct Copy {
    torch::Tensor tensor;  // on the host, with the strides of the original where that is dense
    Values values = Values::finite;
  };
  // Values are looked at in the pass that copies them, so memory is read once; of a tensor on a
  // device they are not looked at, and the copy is only there after wait(). Error when the region
  // is full.
  [[nodiscard]] Copy copy(const torch::Tensor& tensor);

  // Until the copies from `device`, which are asked for in its current stream, are made.
  static void wait(const torch::Device& device);

  [[nodiscard]] std::uint64_t bytes() const;

 private:
  explicit SnapshotMemory(torch::Tensor region) : region_(std::move(region)) {}
  [[nodiscard]] torch::Tensor room_for(const torch::Tensor& dense);

  torch::Tensor region_;  // bytes
  std::uint64_t used_ = 0;
};

}  // namespace kolo
