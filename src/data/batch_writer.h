#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "kolo/data/dataset.h"
#include "kolo/data/loader.h"

namespace kolo {

// Writes samples in place into the tensors of a batch. Keeps up to `keep` pairs of tensors and uses
// a pair again once nothing outside refers to its memory. Thread-safe.
class BatchWriter {
 public:
  BatchWriter(std::shared_ptr<const Dataset> dataset, std::int64_t batch_size, std::size_t keep);

  // Loads these samples, at most batch_size. Asks before each sample whether the batch is still
  // wanted; if not, returns none. Throws what the dataset throws.
  [[nodiscard]] std::optional<Batch> write(std::span<const std::int64_t> indices,
                                           std::int64_t epoch,
                                           const std::function<bool()>& is_wanted);

 private:
  struct Buffers {
    torch::Tensor input, target;  // of batch_size samples
  };
  [[nodiscard]] Batch take(std::int64_t samples);
  [[nodiscard]] Buffers allocate() const;

  std::shared_ptr<const Dataset> dataset_;
  std::size_t input_size_;
  std::size_t target_size_;
  std::vector<std::int64_t> input_shape_, target_shape_;  // of a full batch
  std::size_t keep_;
  std::mutex mutex_;
  std::vector<Buffers> kept_;
};

}  // namespace kolo
