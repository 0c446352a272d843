#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kolo/comm/communicator.h"

namespace kolo {

// A bucket of gradients on its way to being averaged. Every gradient is a view into `flat`, whose
// gaps between parameters are zeros.
struct GradientBucket {
  std::size_t index = 0;                 // in the order of the plan; the same on every rank
  torch::Tensor flat;                    // one-dimensional, contiguous
  std::vector<torch::Tensor> gradients;  // with the parameters' shapes
  std::vector<std::string> names;        // of the parameters
};

// How the ranks average a bucket of gradients: compression, or a user's own scheme. (PyTorch's DDP
// calls it a communication hook.)
//
// average() is called once per bucket and step, in the same order on every rank, on the
// communication thread while backward goes on. It blocks until bucket.flat holds the average, and
// may call any collective of the communicator it is given. What it throws reaches
// GradientReducer::wait().
class GradientHook {
 public:
  virtual ~GradientHook() = default;
  virtual void average(const Communicator& communicator, const GradientBucket& bucket) = 0;

  // Bytes that one rank has put into collectives so far, by this hook's own count.
  [[nodiscard]] virtual std::int64_t bytes_sent() const = 0;

  // The parameters have been cut into other buckets: whatever is kept by bucket index is void.
  virtual void buckets_changed() {}
};

}  // namespace kolo
