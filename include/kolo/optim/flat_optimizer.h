#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

// Optimizers as fused passes over flat buffers: one pass reads parameters, gradients and state once
// and writes parameters and state once. Whoever owns the buffers calls them bucket by bucket, or
// for the slices that a rank owns; every element is on its own, so the cut makes no difference, not
// even in the last bit.
namespace kolo {

// A stretch of the flat buffers: element i of each span belongs to the same parameter. All spans
// are equally long (possibly empty), and none overlaps another; spans of state that the optimizer
// doesn't have are ignored.
template <typename T>
struct FlatSlice {
  std::span<T> parameters;
  std::span<const T> gradients;
  std::array<std::span<T>, 2> state;
};

// The arithmetic is the slice's own: float32 in float32, float64 in float64. Objects are immutable:
// any number of threads may call update on slices that don't overlap.
class FlatOptimizer {
 public:
  virtual ~FlatOptimizer() = default;

  // The name in configurations: "sgd", "adam" or "adamw".
  [[nodiscard]] virtual std::string name() const = 0;

  // The names of the state buffers, in the order of FlatSlice::state: {}, {"momentum_buffer"} or
  // {"exp_avg", "exp_avg_sq"}, as torch.optim calls them. Each is as long as the parameters, has
  // their type and begins as zeros.
  [[nodiscard]] virtual std::span<const std::string_view> state_names() const = 0;

  // One step on a slice. `step` counts from 1; all slices of a step get the same step and rate.
  // Throws Error, with nothing changed, when spans differ in length, the step is below 1 or the
  // rate is negative or not finite.
  virtual void update(const FlatSlice<float>& slice, double learning_rate,
                      std::int64_t step) const = 0;
  virtual void update(const FlatSlice<double>& slice, double learning_rate,
                      std::int64_t step) const = 0;
};

struct SgdOptions {
  double momentum = 0;      // 0 or more; 0 needs no state
  double dampening = 0;     // subtracted from the gradient's weight 1 in the momentum
  double weight_decay = 0;  // 0 or more; times the parameter, added to the gradient
  bool nesterov = false;    // needs momentum and no dampening
};

// As torch::optim::SGD: the first step sets the momentum buffer to the gradient, undampened.
// Throws InputError for values out of range.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_sgd(const SgdOptions& options);

struct AdamOptions {
  double beta1 = 0.9;            // in [0, 1)
  double beta2 = 0.999;          // in [0, 1)
  double epsilon = 1e-8;         // 0 or more; added after the bias correction
  double weight_decay = 0;       // 0 or more
  bool decoupled_decay = false;  // AdamW: decays the parameter, not through the gradient
};

// As torch::optim::Adam (Kingma and Ba, 2015), or AdamW (Loshchilov and Hutter, 2019) with
// decoupled decay. Throws InputError for values out of range.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_adam(const AdamOptions& options);

}  // namespace kolo
