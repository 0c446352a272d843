#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kolo/base/enum_names.h"

// Optimizers as fused passes over flat buffers: one pass reads parameters, gradients and state once
// and writes parameters and state once. Whoever owns the buffers calls them bucket by bucket, or
// for the slices that a rank owns; every element is on its own, so the cut makes no difference, not
// even in the last bit. Two kinds look further than the element, and say so: is_layerwise() and
// spares_vectors().
//
// Here are the interface, SGD and Adam; others in adaptive_optimizers.h and layerwise_optimizers.h.
namespace kolo {

// A stretch of the flat buffers: element i of each span belongs to the same parameter. All spans
// are equally long (possibly empty), and none overlaps another; spans of state that the optimizer
// doesn't have are ignored.
template <typename T>
struct FlatSlice {
  std::span<T> parameters;
  std::span<const T> gradients;
  std::array<std::span<T>, 3> state;
  bool is_vector = false;  // of parameters with one dimension or none: biases, scales of batch norm
};

// The arithmetic is the slice's own: float32 in float32, float64 in float64. Objects are immutable:
// any number of threads may call update on slices that don't overlap.
class FlatOptimizer {
 public:
  virtual ~FlatOptimizer() = default;

  // The name in configurations, for example "sgd" or "adamw".
  [[nodiscard]] virtual std::string name() const = 0;

  // The names of the state buffers, in the order of FlatSlice::state, as torch.optim calls them:
  // {}, {"momentum_buffer"} or {"exp_avg", "exp_avg_sq"} for example. Each is as long as the
  // parameters and has their type.
  [[nodiscard]] virtual std::span<const std::string_view> state_names() const = 0;
  // The value that every element of a state begins with, by its place in state_names().
  [[nodiscard]] virtual double initial_state(std::size_t /*place*/) const { return 0; }

  // Whether a step depends on norms over a parameter: then a slice must be one whole parameter.
  [[nodiscard]] virtual bool is_layerwise() const { return false; }
  // Whether vectors are treated in another way than other parameters: then a slice holds either
  // vectors or other parameters, and FlatSlice::is_vector must be right.
  [[nodiscard]] virtual bool spares_vectors() const { return false; }

  // One step on a slice. `step` counts from 1; all slices of a step get the same step and rate.
  // Throws Error, with nothing changed, when spans differ in length, the step is below 1 or the
  // rate is negative or not finite.
  virtual void update(const FlatSlice<float>& slice, double learning_rate,
                      std::int64_t step) const = 0;
  virtual void update(const FlatSlice<double>& slice, double learning_rate,
                      std::int64_t step) const = 0;
};

// Weight decay means the same in all options. weight_decay * parameter is added to the gradient,
// which is the gradient of an L2 penalty weight_decay / 2 * parameter^2 in the loss. Decoupled
// (Loshchilov and Hutter, 2019) the parameter is multiplied by 1 - rate * weight_decay instead, and
// the gradient stays as it is. With decay_excludes_vectors, biases and batch norm's scales and
// shifts don't decay.

// Where epsilon is added to a root: to the root itself, as PyTorch does it, or as Keras does it.
enum class EpsilonForm : std::uint8_t { torch, keras };

constexpr auto enum_names(EpsilonForm) {
  return std::to_array<EnumName<EpsilonForm>>(
      {{EpsilonForm::torch, "torch"}, {EpsilonForm::keras, "keras"}});
}

struct SgdOptions {
  double momentum = 0;      // 0 or more; 0 needs no state
  double dampening = 0;     // subtracted from the gradient's weight 1 in the momentum
  double weight_decay = 0;  // 0 or more
  bool nesterov = false;    // needs momentum and no dampening
  bool decoupled_decay = false;
  bool decay_excludes_vectors = false;
};

// As torch::optim::SGD: the first step sets the momentum buffer to the gradient, undampened. The
// momentum is of gradients, and the rate is applied to it afterwards. (Keras has the rate in the
// momentum; the two differ only where the rate changes.) Throws InputError for values out of range.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_sgd(const SgdOptions& options);

struct AdamOptions {
  double beta1 = 0.9;            // in [0, 1)
  double beta2 = 0.999;          // in [0, 1)
  double epsilon = 1e-8;         // 0 or more; Keras's default is 1e-7
  double weight_decay = 0;       // 0 or more
  bool decoupled_decay = false;  // AdamW
  bool amsgrad = false;          // divides by the largest second moment so far; one state more
  // Where epsilon is added to the root of the second moment: false, after its bias correction, as
  // Kingma and Ba's algorithm 1 and PyTorch do; true, before ("epsilon hat"), as Keras does.
  bool epsilon_before_correction = false;
  bool decay_excludes_vectors = false;
};

// As torch::optim::Adam (Kingma and Ba, 2015), or AdamW (Loshchilov and Hutter, 2019) with
// decoupled decay, or AMSGrad (Reddi et al., 2018): the maximum is taken of the uncorrected second
// moments. Throws InputError for values out of range.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_adam(const AdamOptions& options);

}  // namespace kolo
