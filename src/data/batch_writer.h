#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "kolo/data/dataset.h"
#include "kolo/data/loader.h"
#include "tensor_pool.h"

namespace kolo {

// Writes samples in place into the tensors of a batch, whose memory it uses again when nobody holds
// it. Thread-safe.
class BatchWriter {
 public:
  // Keeps the memory of up to `keep` batches that nobody uses.
  BatchWriter(std::shared_ptr<const Dataset> dataset, std::int64_t batch_size, std::size_t keep);

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
