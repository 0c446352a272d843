#pragma once

#include <cstdint>

#include <torch/types.h>

#include "kolo/data/loader.h"
#include "kolo/nn/mixup.h"
#include "kolo/train/objective.h"

namespace kolo {

// How batches are mixed (mixup.h), if they are.
struct Mixing {
  double alpha = 0;  // 0: they are not
  std::uint64_t seed = 1;
  int replica = 0;  // whose samples these are
};

// What a step asks of a network: what goes in, and what to make of what comes out.
class BatchTask {
 public:
  // Batch and step decide alone, so ranks that have parts of a network have the same task.
  BatchTask(const Objective& objective, const Batch& batch, const Mixing& mixing,
            std::int64_t steps_before);

  [[nodiscard]] const torch::Tensor& inputs() const { return batch_.inputs; }
  struct Result {
    torch::Tensor loss;  // to call backward() on
    torch::Tensor sums;  // metric_sums()
  };
  [[nodiscard]] Result measure(const torch::Tensor& outputs) const;
  // The same of some of the samples.
  [[nodiscard]] BatchTask part(std::int64_t first, std::int64_t samples) const;

 private:
  const Objective* objective_;
  MixedBatch batch_;  // without partners where it isn't mixed
};

}  // namespace kolo
