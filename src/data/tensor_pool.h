#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <torch/types.h>

namespace kolo {

// Lends CPU tensors of one type and shape (but for the first dimension) whose memory is used again
// once the last tensor, view or autograd node that refers to it is gone. Thread-safe; what is lent
// may outlive the pool. Owned by a shared_ptr.
class TensorPool : public std::enable_shared_from_this<TensorPool> {
 public:
  // Keeps the memory of up to `keep` tensors that nobody uses.
  TensorPool(std::vector<std::int64_t> shape, torch::ScalarType type, std::size_t keep);

  // A contiguous tensor, not initialized, with `rows` (up to the shape's) in its first dimension.
  [[nodiscard]] torch::Tensor lend(std::int64_t rows);

 private:
  [[nodiscard]] torch::Tensor take();
  void give_back(torch::Tensor memory);

  std::vector<std::int64_t> shape_;
  torch::ScalarType type_;
  std::size_t keep_;
  std::mutex mutex_;
  std::vector<torch::Tensor> unused_;
};

}  // namespace kolo
