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

// How the ranks average a bucket of gradients: compression, or a user's own scheme. (PyTorch's DDP
// calls it a communication hook.)
//
// average() is called once per bucket and step, in the same order on every rank, on the
// communication thread while backward goes on; of a network in the host's memory that is one
// bucket, on the thread that waits for it. It blocks until bucket.flat holds the average, and may
// call any collective of the communicator it is given. What it throws reaches
// GradientReducer::wait().
class GradientHook {
 public:
  virtual ~GradientHook() = default;

  virtual void average(const Communicator& communicator, const GradientBucket& bucket) = 0;

  // Tells whether average() gives every rank the whole average. False: this rank's part only, for
  // an optimizer that steps with that. grad() stays a placeholder then, until it is zeroed: nobody
  // clips or steps with the rest.
  [[nodiscard]] virtual bool averages_all() const { return true; }

  // Bytes that one rank has put into collectives so far, by this hook's own count.
  [[nodiscard]] virtual std::int64_t bytes_sent() const = 0;

  // The parameters have been cut into other buckets: whatever is kept by bucket index is void.
  virtual void buckets_changed() {}
};

// Averages gradients in a type of 16 bits: half the bytes of float32 on the wire (three quarters
// between nodes that have several ranks each, whose sums travel as float32), for two passes over
// the gradients on the communication thread and memory for a copy of them in 16 bits.
// Gradients of float64 are compressed too; those of 16 bits travel as they are. One rank's
// gradients stay as they are.
//
// float16 keeps 11 significant bits and ends at 65504: a gradient that is larger becomes infinite
// (FiniteCheck sees it), and what is below 6e-8 becomes 0. bfloat16 has float32's range and 8
// significant bits. Averages of gradients in range stay in range. A predivide_factor divides before
// and multiplies after, for gradients that are themselves out of range, at the cost of as much at
// the lower end. Error for a factor that is not finite and greater than 0.
[[nodiscard]] std::shared_ptr<GradientHook> float16_compression(double predivide_factor = 1);
[[nodiscard]] std::shared_ptr<GradientHook> bfloat16_compression(double predivide_factor = 1);

struct PowerSgdOptions {
  // Rank of the approximation: a gradient of n x m travels as (n + m) * rank numbers. 1 or more; at
  // most min(n, m) of it is used.
  std::int64_t rank = 1;
  // Each step begins with the last one's right factor, so that the approximation follows the
  // gradients' main directions; otherwise with random numbers.
  bool warm_start = true;
  // What a step's approximation left out is added to the next step's gradient. Costs memory like
  // the gradients'.
  bool error_feedback = true;
  // Steps at the beginning that average without compression: early gradients compress badly.
  std::int64_t start_step = 1000;
  // A gradient is compressed when (n + m) * rank times this is less than n * m.
  double minimum_compression_rate = 2;
  std::uint64_t seed = 0;  // of the random factors; the same on every rank
  // A column that orthogonalization leaves shorter than this part of its length depends on the
  // others, but for rounding, and counts as zero.
  double orthogonalisation_epsilon = 1e-6;
};

// Averages gradients as low-rank approximations: PowerSGD (Vogels, Karimireddy and Jaggi, NeurIPS
// 2019). A gradient of two or more dimensions is a matrix M of [shape[0], the rest]. With the right
// factor Q: P = M Q, averaged and made orthonormal; Q = M^T P, averaged; M becomes P Q^T. All P of
// a bucket travel in one all-reduce, all Q in another, and what is not compressed (vectors, small
// matrices) in a third. Ranks get the same bits, on whatever processors they run.
//
// For float32; buckets of other types are averaged as they are, and so is a step with
// gradients that are infinite or not a number (every rank then sees that they are; the error
// feedback is kept as it was). A single rank's gradients stay as they are.
//
// The cost is 3 (2 without error feedback) passes over the gradients, on the communication thread.
// What is kept between steps belongs to this rank and is not part of checkpoints: a resumed run
// starts without an error to feed back.
//
// Throws InputError for a rank below 1, a start_step below 0 and negative or not finite numbers.
[[nodiscard]] std::shared_ptr<GradientHook> power_sgd(const PowerSgdOptions& options = {});

// Calls a function, on a thread of autograd's, each time backward has accumulated into the
// gradient of a parameter (a leaf that requires one). Keep what is returned for as long as it is
// to be called: autograd itself forgets the hook when no graph needs the parameter any more. The
// function may be called after that too, by a graph that is still there.
//
// `take`, if given, offers memory for the gradient (kolo/base/gradient_destination.h). `averager`
// is who averages the gradient, if the caller does.
[[nodiscard]] GraphNode call_after_accumulation(const torch::Tensor& parameter,
                                                std::function<void()> call,
                                                std::function<std::shared_ptr<void>()> take = {},
                                                std::weak_ptr<const void> averager = {});
// Error, with the name, while an averager of the parameter's gradient lives.
void require_no_averager(const torch::Tensor& parameter, const std::string& name);

}  // namespace kolo
