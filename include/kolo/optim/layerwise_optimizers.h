#pragma once

#include <memory>

#include "kolo/optim/flat_optimizer.h"

// Optimizers for large batches, which scale the step of every parameter by norms over it. They take
// whole parameters (FlatOptimizer::is_layerwise), with the norms added up in double. Where a norm
// is zero, and with exclude_vectors for biases and batch norm's scales and shifts, the scale is 1;
// the latter don't decay either.
namespace kolo {

struct LarsOptions {
  double momentum = 0.9;             // 0 or more; 0 needs no state
  double weight_decay = 0;           // 0 or more
  double trust_coefficient = 0.001;  // above 0
  bool exclude_vectors = true;
};

// LARS (You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017):
//
//   scale  = trust_coefficient * |parameter| / (|g| + weight_decay * |parameter|)
//   buffer = momentum * buffer + rate * scale * (g + weight_decay * parameter)
//
// and the parameter loses the buffer. As in the paper the momentum contains the rate. Costs a pass
// over parameters and gradients for the norms, and one as SGD's. Throws InputError for values out
// of range.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_lars(const LarsOptions& options);

struct LambOptions {
  double beta1 = 0.9;       // in [0, 1)
  double beta2 = 0.999;     // in [0, 1)
  double epsilon = 1e-6;    // 0 or more; added after the bias correction
  double weight_decay = 0;  // 0 or more; the paper's BERT takes 0.01
  bool exclude_vectors = true;
};

// LAMB (You et al., "Large batch optimization for deep learning", 2020, algorithm 2, with the
// identity for phi): Adam's step with decay, direction = mean / (root + epsilon) + weight_decay *
// parameter, of which the parameter loses rate * |parameter| / |direction| * direction. Costs a
// pass for the moments and the norms, and one that computes the direction again. Throws InputError
// for values out of range.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_lamb(const LambOptions& options);

}  // namespace kolo
