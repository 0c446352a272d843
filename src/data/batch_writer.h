#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kolo/data/dataset.h"
#include "kolo/data/loader.h"

namespace kolo {

// Lends CPU tensors of one type and shape (but for the first dimension) whose memory is used again
// once the last tensor, view or autograd node that refers to it is gone. Thread-safe; what is lent
// may outlive the pool. Owned by a shared_ptr.
class TensorPool : public std::enable_shared_from_this<TensorPool> {
 public:
  // Keeps the memory of up to `keep` tensors that nobody uses.
  TensorPool(std::vector<std::int64_t> shape, torch::ScalarType type, std::size_t keep);

  // From now on new memory is pinned, which devices read by themselves.
  void pin();
  // A contiguous tensor, not initialized, with `rows` (up to the shape's) in its first dimension.
  [[nodiscard]] torch::Tensor lend(std::int64_t rows);

 private:
  struct Memory {
    torch::Tensor tensor;
    bool is_pinned = false;
  };

  [[nodiscard]] Memory take();
  void give_back(Memory memory);

  std::vector<std::int64_t> shape_;
  torch::ScalarType type_;
  std::size_t keep_;
  std::mutex mutex_;
  bool is_pinned_ = false;
  std::vector<Memory> unused_;
};

// Writes samples in place into the tensors of a batch, whose memory it uses again when nobody holds
// it. Thread-safe.
class BatchWriter {
 public:
  // Keeps the memory of up to `keep` batches that nobody uses.
  BatchWriter(std::shared_ptr<const Dataset> dataset, std::int64_t batch_size, std::size_t keep);

  // From now on batches lie in pinned memory, but for those that are being written.
  void pin();
  // Loads these samples, at most batch_size. Asks before each sample whether the batch is still
  // wanted; if not, returns none. Throws what the dataset throws.
  [[nodiscard]] std::optional<Batch> write(std::span<const std::int64_t> indices,
                                           std::int64_t epoch,
                                           const std::function<bool()>& is_wanted);

 private:
  std::shared_ptr<const Dataset> dataset_;
  bool has_classes_;
  std::size_t input_size_;
  std::size_t target_size_;
  std::shared_ptr<TensorPool> inputs_, targets_;
};

}  // namespace kolo
