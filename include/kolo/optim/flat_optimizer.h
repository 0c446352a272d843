#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kolo/base/enum_names.h"

// Optimizers as fused passes over flat buffers in the memory of the host or of a CUDA device: one
// pass reads and writes parameters and state once. They are called bucket by bucket, or for the
// slices that a rank owns; elements are independent, so the cut makes no difference to any bit. Two
// kinds look further than the element, and say so: is_layerwise() and spares_vectors().
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

// The rate of a step, and what it has to know of those before.
struct StepRate {
  // NOLINTNEXTLINE(google-explicit-constructor): most optimizers need nothing but the rate.
  StepRate(double rate, double weight_in_average = 1)
      : learning_rate(rate), weight(weight_in_average) {}
  double learning_rate;
  double weight;  // of this step in the average over all steps so far (RateHistory), from 0 to 1
  bool operator==(const StepRate&) const = default;
};

// Rates of a training so far, for optimizers that average: a part of its checkpoints.
struct RateHistory {
  double largest = 0;
  double sum_of_squares = 0;  // of what was the largest after each step

  // One step more. Its weight in the average is the square of the largest rate so far (Defazio et
  // al., 2024, section 4.3), so that the steps of a warm-up count little.
  StepRate note(double learning_rate);
  // One of the last steps was not made.
  void forget() { sum_of_squares -= largest * largest; }
  bool operator==(const RateHistory&) const = default;
};

// Parameters to use a network with (validation, checkpoints), of optimizers whose gradients are
// taken at others: parameter - factor * state[index].
struct ParametersForUse {
  std::size_t index = 0;  // in state_names()
  double factor = 0;
};

// Numbers that a step computes once for all elements, from the rate and the step; their meaning is
// the optimizer's own. Slices of float32 take them as float32.
using StepConstants = std::array<double, 12>;

// A step on a CUDA device. Whatever is pointed to is memory of that device, which is read when the
// device comes to the step, not when the step is enqueued: a CUDA graph of it can be replayed with
// other values.
struct DeviceUpdate {
  void* stream = nullptr;                    // a cudaStream_t of the current device
  const StepConstants* constants = nullptr;  // FlatOptimizer::constants() of this step
  const double* gradient_factor = nullptr;   // rounded to the slice's type; null: 1
  const std::int32_t* left_out = nullptr;    // where it is not 0, nothing changes; null: 0
  std::span<std::byte> workspace = {};  // FlatOptimizer::device_workspace_bytes(), aligned to 16
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
  // The value that every element of a state begins with, by its index in state_names().
  [[nodiscard]] virtual double initial_state(std::size_t /*index*/) const { return 0; }

  // Whether a step depends on norms over a parameter: then a slice must be one whole parameter.
  [[nodiscard]] virtual bool is_layerwise() const { return false; }
  // Whether vectors are treated in another way than other parameters: then a slice holds either
  // vectors or other parameters, and FlatSlice::is_vector must be right.
  [[nodiscard]] virtual bool spares_vectors() const { return false; }

  // None: the parameters as they are trained. Those that have any need a RateHistory.
  [[nodiscard]] virtual std::optional<ParametersForUse> for_use() const { return std::nullopt; }

  // One step on a slice. `step` counts from 1; all slices of a step get the same step and rate.
  // Throws Error, with nothing changed, when spans differ in length, the step is below 1 or the
  // rate is negative or not finite.
  virtual void update(const FlatSlice<float>& slice, StepRate rate, std::int64_t step) const = 0;
  virtual void update(const FlatSlice<double>& slice, StepRate rate, std::int64_t step) const = 0;

  // Constants, workspace and updates of steps on CUDA devices. An optimizer that does not override
  // them throws Error there.

  // Value that DeviceUpdate::constants points to a copy of, for slices of vectors or of others.
  // Throws Error for a step or rate that update() doesn't take.
  [[nodiscard]] virtual StepConstants constants(StepRate rate, std::int64_t step,
                                                bool is_vector) const;
  // The memory that a step on a slice of as many elements needs besides, and of which nothing is
  // kept: slices whose steps follow one another on a stream may use the same.
  [[nodiscard]] virtual std::size_t device_workspace_bytes(std::size_t /*size*/) const { return 0; }
  // Enqueues a step on a slice in the device's memory. Elements become what update() makes of them,
  // with gradients times the factor, to the bit; but a layer's norm is added up in the device's own
  // order. The gradients stay. Throws Error when spans differ in length, the workspace is too
  // small, the device refuses the launch, or kolo was built without CUDA.
  virtual void update_on_device(const FlatSlice<float>& slice, const DeviceUpdate& device) const;
  virtual void update_on_device(const FlatSlice<double>& slice, const DeviceUpdate& device) const;
};

// Weight decay means the same in all options. weight_decay * parameter is added to the gradient,
// which is the gradient of an L2 penalty weight_decay / 2 * parameter^2 in the loss. Decoupled
// (Loshchilov and Hutter, 2019) the parameter is multiplied by 1 - rate * weight_decay instead, and
// the gradient stays as it is. With decay_excludes_vectors, biases and batch norm's scales and
// shifts don't decay.
struct WeightDecay {
  double weight = 0;
  bool is_decoupled = false;
  bool excludes_vectors = false;
};

// Form of an epsilon in a root: added to the root itself, as in PyTorch, or as in Keras.
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
  // Adds epsilon to the second moment's root before its bias correction ("epsilon hat"), as Keras
  // does; false: after it, as Kingma and Ba's algorithm 1 and PyTorch do.
  bool epsilon_before_correction = false;
  bool decay_excludes_vectors = false;
};

// As torch::optim::Adam (Kingma and Ba, 2015), or AdamW (Loshchilov and Hutter, 2019) with
// decoupled decay, or AMSGrad (Reddi et al., 2018): the maximum is taken of the uncorrected second
// moments. Throws InputError for values out of range.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_adam(const AdamOptions& options);

// Further optimizers with a rate for each element, by the names, arithmetic and default values of
// Keras 3. The rate that Keras takes by default is 0.001 for each. In all formulas g is the
// gradient.

struct RmspropOptions {
  double rho = 0.9;       // in [0, 1); PyTorch calls it alpha, and takes 0.99
  double momentum = 0;    // 0 or more
  double epsilon = 1e-7;  // 0 or more
  bool centered = false;  // divides by the deviation instead of the root mean square
  // Adds epsilon under the root, and keeps the rate in the momentum buffer, as Keras does; false:
  // adds it to the root, and applies the rate to the buffer, as PyTorch.
  bool as_keras = true;
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
// increment.
// Throws InputError for values out of range, as do all below.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_rmsprop(const RmspropOptions& options);

struct AdagradOptions {
  double initial_accumulator = 0.1;  // 0 or more; PyTorch takes 0
  double epsilon = 1e-7;             // 0 or more
  bool epsilon_in_root = true;       // as Keras; false: added to the root, as in PyTorch
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

// Optimizers for large batches, which scale the step of every parameter by norms over it. They take
// whole parameters (FlatOptimizer::is_layerwise), with the norms added up in double. Where a norm
// is zero, and with exclude_vectors for biases and batch norm's scales and shifts, the scale is 1;
// the latter don't decay either.

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

// Optimizers that need no schedule of the rate, as they average over the steps (Defazio et al.,
// "The road less scheduled", 2024). Gradients are taken at y, which is what the parameters are
// while they are trained, between the steps' own sequence z and the average x that the network is
// to be used with (FlatOptimizer::for_use):
//
//   z = z - rate * direction(y)
//   x = (1 - c) * x + c * z          c: this step's weight (RateHistory)
//   y = (1 - momentum) * z + momentum * x
//
// The state is z - x, which is 0 at first: with d = z - x and w = d - rate * direction, y gains
// momentum * c * w - (1 - momentum) * rate * direction, d becomes (1 - c) * w, and x is
// y - (1 - momentum) * d. A warm-up of the rate suits them, a decay does not.

struct ScheduleFreeSgdOptions {
  double momentum = 0.9;    // beta in the paper; in [0, 1)
  double weight_decay = 0;  // 0 or more: times y, added to the gradient
  bool decay_excludes_vectors = false;
};

// The direction is the gradient. Memory and passes are those of SGD with momentum. Throws
// InputError for values out of range.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_schedule_free_sgd(
    const ScheduleFreeSgdOptions& options);

struct ScheduleFreeAdamwOptions {
  double beta1 = 0.9;       // the momentum; in [0, 1)
  double beta2 = 0.999;     // in [0, 1)
  double epsilon = 1e-8;    // 0 or more; added after the bias correction
  double weight_decay = 0;  // 0 or more: times y, added to the direction
  bool decay_excludes_vectors = false;
};

// The direction is the gradient over the root of Adam's second moment, corrected, as in the
// authors' program. Memory and passes are Adam's. Throws InputError for values out of range.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_schedule_free_adamw(
    const ScheduleFreeAdamwOptions& options);

}  // namespace kolo
