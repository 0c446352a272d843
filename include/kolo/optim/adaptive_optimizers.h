#pragma once

#include <memory>

#include "kolo/optim/flat_optimizer.h"

// Further optimizers with a rate for each element, by the names, arithmetic and default values of
// Keras 3. The rate that Keras takes by default is 0.001 for each. What weight decay means stands
// in flat_optimizer.h. In all formulas g is the gradient.
namespace kolo {

struct RmspropOptions {
  double rho = 0.9;       // in [0, 1); PyTorch calls it alpha, and takes 0.99
  double momentum = 0;    // 0 or more
  double epsilon = 1e-7;  // 0 or more
  bool centered = false;  // divides by the deviation instead of the root mean square
  // Where epsilon is added: true, under the root, as Keras does; false, to the root, as PyTorch.
  bool epsilon_in_root = true;
  double weight_decay = 0;  // 0 or more
  bool decoupled_decay = false;
  bool decay_excludes_vectors = false;
};

// RMSprop (Tieleman and Hinton, 2012), with momentum and centered as Graves (2013):
//
//   square_avg = rho * square_avg + (1 - rho) * g^2      grad_avg likewise of g, when centered
//   increment  = rate * g / sqrt(square_avg [- grad_avg^2] + epsilon)
//
// and the parameter loses the increment, or momentum_buffer = momentum * momentum_buffer +
// increment. (PyTorch applies the rate to the buffer; the two differ only where the rate changes.)
// Throws InputError for values out of range, as do all below.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_rmsprop(const RmspropOptions& options);

struct AdagradOptions {
  double initial_accumulator = 0.1;  // 0 or more; PyTorch takes 0
  double epsilon = 1e-7;             // 0 or more
  bool epsilon_in_root = true;       // as for RMSprop
  double weight_decay = 0;           // 0 or more
  bool decoupled_decay = false;
  bool decay_excludes_vectors = false;
};

// Adagrad (Duchi et al., 2011): sum += g^2, from initial_accumulator on, and the parameter loses
// rate * g / sqrt(sum + epsilon).
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_adagrad(const AdagradOptions& options);

struct AdadeltaOptions {
  double rho = 0.95;        // in [0, 1)
  double epsilon = 1e-7;    // 0 or more; under both roots
  double weight_decay = 0;  // 0 or more
  bool decoupled_decay = false;
  bool decay_excludes_vectors = false;
};

// Adadelta (Zeiler, 2012), times a rate, which is 1 in the paper:
//
//   square_avg = rho * square_avg + (1 - rho) * g^2
//   delta      = sqrt(acc_delta + epsilon) / sqrt(square_avg + epsilon) * g
//   acc_delta  = rho * acc_delta + (1 - rho) * delta^2
//
// and the parameter loses rate * delta.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_adadelta(const AdadeltaOptions& options);

struct AdamaxOptions {
  double beta1 = 0.9;       // in [0, 1)
  double beta2 = 0.999;     // in [0, 1)
  double epsilon = 1e-7;    // 0 or more; added to the norm
  double weight_decay = 0;  // 0 or more
  bool decoupled_decay = false;
  bool decay_excludes_vectors = false;
};

// Adamax (Kingma and Ba, 2015, section 7.1):
//
//   exp_avg = beta1 * exp_avg + (1 - beta1) * g,  exp_inf = max(beta2 * exp_inf, |g|)
//
// and the parameter loses rate / (1 - beta1^step) * exp_avg / (exp_inf + epsilon).
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_adamax(const AdamaxOptions& options);

struct NadamOptions {
  double beta1 = 0.9;     // in [0, 1)
  double beta2 = 0.999;   // in [0, 1)
  double epsilon = 1e-7;  // 0 or more; added after the bias correction
  // How fast the momentum approaches beta1; 0 or more. 1 in Keras 3, 0.004 in PyTorch and in Keras
  // before 2.11.
  double momentum_decay = 1;
  double weight_decay = 0;  // 0 or more
  bool decoupled_decay = false;
  bool decay_excludes_vectors = false;
};

// Nadam (Dozat, "Incorporating Nesterov momentum into Adam", 2016) with the momentum schedule of
// his and of Keras, mu(t) = beta1 * (1 - 0.96^(t * momentum_decay) / 2). With M(t) = mu(1) * ... *
// mu(t), moments as Adam's and t the step, the parameter loses rate * mean / (sqrt(square) +
// epsilon) of
//
//   mean   = mu(t + 1) / (1 - M(t + 1)) * exp_avg + (1 - mu(t)) / (1 - M(t)) * g
//   square = exp_avg_sq / (1 - beta2^t)
//
// M is computed from t alone, so that there is no state but the moments.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_nadam(const NadamOptions& options);

}  // namespace kolo
