#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kolo/base/graph_node.h"
#include "kolo/comm/communicator.h"

namespace kolo {

// A bucket of gradients on its way to being averaged. Every gradient is a view into `flat`, whose
// gaps between parameters are zeros.
struct GradientBucket {
  std::size_t index = 0;                 // in the order of the plan; the same on every rank
  torch::Tensor flat;                    // one-dimensional, contiguous
  std::vector<torch::Tensor> gradients;  // with the parameters' shapes
};

// A way to average a bucket of gradients: compression, or a user's own scheme. (PyTorch's DDP calls
// it a communication hook.)
//
// average() is called once per bucket and step, in the same order on every rank, on the
// communication thread while backward goes on (a single bucket in the host's memory: on the thread
// that waits for it). It blocks until bucket.flat holds the average, and may call any collective of
// the communicator it is given. GradientReducer::wait() throws what it throws.
class GradientHook {
 public:
  virtual ~GradientHook() = default;

  virtual void average(const Communicator& communicator, const GradientBucket& bucket) = 0;

  // Tells whether average() gives every rank the whole average. False: this rank's part only, for
  // an optimizer that steps with that; grad() then stays a placeholder until it is zeroed.
  [[nodiscard]] virtual bool averages_all() const { return true; }

  // Tells whether a step's gradients depend on those of earlier ones (error feedback).
  [[nodiscard]] virtual bool carries_over() const { return false; }

  // Bytes that this rank has put into collectives so far.
  [[nodiscard]] virtual std::int64_t bytes_sent() const = 0;

  // Called when parameters have been cut into other buckets: state by bucket index is void.
  virtual void buckets_changed() {}
};

// Averages gradients in a type of 16 bits: half of float32's bytes on the wire (three quarters
// between nodes of several ranks, whose sums travel as float32), for two passes over the gradients
// on the communication thread and a copy of them in 16 bits. Float64 is compressed too; gradients
// of 16 bits, and one rank's, stay as they are.
//
// float16 keeps 11 significant bits and ends at 65504: larger gradients become infinite
// (FiniteCheck sees it), and those below 6e-8 become 0. bfloat16 has float32's range and 8
// significant bits.
[[nodiscard]] std::shared_ptr<GradientHook> float16_compression();
[[nodiscard]] std::shared_ptr<GradientHook> bfloat16_compression();

struct PowerSgdOptions {
  // Rank of the approximation, at least 1: a gradient of n x m travels as (n + m) * rank numbers,
  // if these are less than half of its own.
  std::int64_t rank = 1;
  // Steps at the beginning that average without compression: early gradients compress badly. They
  // begin anew with each hook, after a join, and where buckets are rebuilt.
  std::int64_t start_step = 1000;
};

// Averages gradients as low-rank approximations: PowerSGD (Vogels, Karimireddy and Jaggi, NeurIPS
// 2019). A gradient of two or more dimensions is a matrix M of [shape[0], the rest]. With the right
// factor Q: P = M Q, averaged and made orthonormal; Q = M^T P, averaged; M becomes P Q^T. A bucket
// has one all-reduce of all P, one of all Q, and one of what is not compressed (vectors, small
// matrices). Ranks get the same bits, on whatever processors they run.
//
// Each step begins with the last one's Q, so that it follows the gradients' main directions, and
// adds the last one's error to the gradient, which takes memory like the gradients'.
//
// For float32 in the host's memory. Buckets of other types, steps with gradients that are infinite
// or not a number on some rank, and a single rank's gradients are averaged as they are.
//
// Costs 3 passes over the gradients on the communication thread. The error is no part of
// checkpoints: a resumed run starts without.
//
// Throws InputError for a rank below 1 and a start_step below 0.
[[nodiscard]] std::shared_ptr<GradientHook> power_sgd(const PowerSgdOptions& options = {});

// Calls a function, on a thread of autograd's, each time backward has accumulated into the gradient
// of a parameter (a leaf that requires one). Keep the result for as long as it is to be called:
// autograd drops a hook when no graph needs the parameter. A graph that is still there may call it
// later.
//
// `take`, if given, offers memory for the gradient (kolo/base/gradient_destination.h). `averager`
// averages the gradient, if anything does.
[[nodiscard]] GraphNode call_after_accumulation(const torch::Tensor& parameter,
                                                std::function<void()> call,
                                                std::function<std::shared_ptr<void>()> take = {},
                                                std::weak_ptr<const void> averager = {});
// Error, with the name, while an averager of the parameter's gradient lives.
void require_no_averager(const torch::Tensor& parameter, const std::string& name);

}  // namespace kolo
