#pragma once

#include <cstdint>
#include <memory>

#include "kolo/parallel/gradient_hook.h"

namespace kolo {

struct PowerSgdOptions {
  // Of the approximation: a gradient of n x m travels as (n + m) * rank numbers. 1 or more; at most
  // min(n, m) of it is used.
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
// For float32 and float64; buckets of other types are averaged as they are, and so is a step with
// gradients that are infinite or not a number (every rank then sees that they are; the error
// feedback is kept as it was). A single rank's gradients stay as they are.
//
// The cost is 3 (2 without error feedback) passes over the gradients, on the communication thread.
// What is kept between steps belongs to this rank and is not part of checkpoints: a resumed run
// starts without an error to feed back.
//
// Throws InputError for a rank below 1, a start_step below 0 and negative or not finite numbers.
[[nodiscard]] std::shared_ptr<GradientHook> power_sgd(const PowerSgdOptions& options = {});

}  // namespace kolo
