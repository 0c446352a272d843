#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "kolo/data/dataset.h"
#include "kolo/data/loader.h"

namespace kolo {

// Lends CPU tensors of one type and shape (but for the first dimension) whose memory is used again
// once the last tensor, view or autograd node that refers to it is gone. Thread-safe; tensors may
// outlive the pool. Owned by a shared_ptr.
class TensorPool : public std::enable_shared_from_this<TensorPool> {
 public:
  // Keeps the memory of up to `keep` tensors that nobody uses.
  TensorPool(std::vector<std::int64_t> shape, torch::ScalarType type, std::size_t keep);

  // Pins new memory from now on, which `device` (CUDA's) reads by itself.
  void pin_for(const torch::Device& device);
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
  std::optional<torch::Device> device_;  // that memory is pinned for
  std::vector<Memory> unused_;
};

// Writes samples in place into the tensors of a batch. Thread-safe.
class BatchWriter {
 public:
  // Keeps the memory of up to `keep` batches that nobody uses.
  BatchWriter(std::shared_ptr<const Dataset> dataset, std::int64_t batch_size, std::size_t keep);

  // Writes later batches for a device: in memory that it reads by itself, and packed by `samples`
  // (null: the device makes none).
  void write_for(const torch::Device& device, std::shared_ptr<const DeviceSamples> samples);
  // Loads the samples of the batch's indices, at most batch_size, into tensors of its own. Asks
  // before each sample whether the batch is still wanted; if not, returns none. Throws as the
  // dataset does.
  [[nodiscard]] std::optional<Batch> write(Batch batch, std::int64_t epoch,
                                           const std::function<bool()>& is_wanted);

 private:
  struct Packing {
    std::shared_ptr<const DeviceSamples> samples;
    std::shared_ptr<TensorPool> pool;  // of their bytes
  };

  void write_sample(const Packing& packing, const Batch& batch, std::size_t place,
                    std::int64_t epoch) const;

  std::shared_ptr<const Dataset> dataset_;
  std::int64_t batch_size_;
  std::size_t keep_;
  bool has_classes_;
  std::size_t input_size_;
  std::size_t target_size_;
  std::shared_ptr<TensorPool> inputs_, targets_;
  std::mutex mutex_;  // of packing_
  Packing packing_;
};

}  // namespace kolo
