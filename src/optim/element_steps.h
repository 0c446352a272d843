#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>

#include "kolo/base/host_device.h"
#include "kolo/base/vectorize.h"
#include "kolo/optim/flat_optimizer.h"

// Each optimizer's arithmetic on one element, written once for the loops on processors
// (kernels.cpp) and on CUDA devices (cuda/device_kernels.cu), which give the same bits: neither
// fuses a multiplication with an addition. Comparisons let a gradient that is NaN reach the
// parameter.
namespace kolo::optim {

#define KOLO_STEP KOLO_HOST_DEVICE KOLO_INLINE

// The constants of a step: structs of numbers of one type and nothing else. They are computed in
// double, lie in StepConstants one after another, and are rounded to the type of the buffers, as
// torch does with its scalars.

template <template <typename> typename Constants>
StepConstants stored(const Constants<double>& constants) {
  StepConstants values{};
  static_assert(sizeof constants <= sizeof values);
  std::memcpy(values.data(), &constants, sizeof constants);
  return values;
}

// Constants in the buffers' type. A layer's scale multiplies the first one, the rate.
template <typename Constants, typename T>
KOLO_STEP inline Constants rounded(const double* values, double scale = 1) {
  constexpr std::size_t count = sizeof(Constants) / sizeof(T);
  T numbers[count];
  numbers[0] = static_cast<T>(values[0] * scale);
  for (std::size_t i = 1; i < count; ++i) numbers[i] = static_cast<T>(values[i]);
  Constants constants;
  std::memcpy(&constants, numbers, sizeof constants);
  return constants;
}

// A step is called with a parameter, its gradient and the elements of its state.
template <typename T, std::size_t count>
struct StepOf {
  using Element = T;
  static constexpr std::size_t states = count;
  static constexpr bool changes_state = true;
};

template <typename Step>
KOLO_STEP inline Step step_of(const double* values, double scale = 1) {
  return {{}, rounded<decltype(Step::c), typename Step::Element>(values, scale)};
}

// Weight decay of a step: times the parameter, added to the gradient (0 when it is decoupled), and
// a factor on the parameter (1 unless it is).
template <typename T>
struct DecayConstants {
  T in_gradient, keep;
};

template <typename T>
struct SgdConstants {
  DecayConstants<T> decay;
  T rate;
  T momentum, gradient_weight;  // momentum buffer = momentum * buffer + gradient_weight * gradient
  T first_step;                 // not 0: momentum buffer = gradient, whatever the buffer held
};

template <typename T>
struct SgdStep : StepOf<T, 0> {
  SgdConstants<T> c;

  KOLO_STEP void operator()(T& parameter, T gradient, T* /*state*/) const {
    gradient = gradient + c.decay.in_gradient * parameter;
    parameter = c.decay.keep * parameter - c.rate * gradient;
  }
};

template <typename T, bool nesterov>
struct SgdMomentumStep : StepOf<T, 1> {
  SgdConstants<T> c;

  KOLO_STEP void operator()(T& parameter, T gradient, T* state) const {
    gradient = gradient + c.decay.in_gradient * parameter;
    const T buffer =
        c.first_step != 0 ? gradient : c.momentum * state[0] + c.gradient_weight * gradient;
    state[0] = buffer;
    parameter =
        c.decay.keep * parameter - c.rate * (nesterov ? gradient + c.momentum * buffer : buffer);
  }
};

// Moments of Adam's family: running means of the gradient and of its square.
template <typename T>
struct MomentConstants {
  T beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon;

  KOLO_STEP void update(T& mean, T& square, T gradient) const {
    mean = beta1 * mean + one_minus_beta1 * gradient;
    square = beta2 * square + one_minus_beta2 * gradient * gradient;
  }
};

template <typename T>
struct AdamConstants {
  DecayConstants<T> decay;
  MomentConstants<T> moments;
  T step_size;   // the rate with the bias correction of the first moment
  T root_scale;  // the bias correction of the second moment's square root
};

// AMSGrad keeps the largest second moments so far as a third state.
template <typename T, bool amsgrad>
struct AdamStep : StepOf<T, amsgrad ? 3 : 2> {
  AdamConstants<T> c;

  KOLO_STEP void operator()(T& parameter, T gradient, T* state) const {
    gradient = gradient + c.decay.in_gradient * parameter;
    c.moments.update(state[0], state[1], gradient);
    T square = state[1];
    if constexpr (amsgrad) {
      square = state[2] > square ? state[2] : square;
      state[2] = square;
    }
    const T denominator = std::sqrt(square) * c.root_scale + c.moments.epsilon;
    parameter = c.decay.keep * parameter - c.step_size * (state[0] / denominator);
  }
};

template <typename T>
struct RmspropConstants {
  DecayConstants<T> decay;
  T rate_of_gradient, rate_of_step;  // one of the two is 1
  T rho, one_minus_rho, momentum;
  T epsilon_in_root, epsilon_to_root;  // one of the two is 0
};

// The state: mean square, momentum if there is one, mean if centered.
template <typename T, bool has_momentum, bool is_centered>
struct RmspropStep : StepOf<T, 1 + has_momentum + is_centered> {
  RmspropConstants<T> c;

  KOLO_STEP void operator()(T& parameter, T gradient, T* state) const {
    gradient = gradient + c.decay.in_gradient * parameter;
    state[0] = c.rho * state[0] + c.one_minus_rho * gradient * gradient;
    T square = state[0];
    if constexpr (is_centered) {
      T& mean = state[has_momentum ? 2 : 1];
      mean = c.rho * mean + c.one_minus_rho * gradient;
      square -= mean * mean;
      square = square < 0 ? T(0) : square;  // by rounding
    }
    T step =
        c.rate_of_gradient * gradient / (std::sqrt(square + c.epsilon_in_root) + c.epsilon_to_root);
    if constexpr (has_momentum) {
      step += c.momentum * state[1];
      state[1] = step;
    }
    parameter = c.decay.keep * parameter - c.rate_of_step * step;
  }
};

template <typename T>
struct AdagradConstants {
  DecayConstants<T> decay;
  T rate, epsilon_in_root, epsilon_to_root;
};

template <typename T>
struct AdagradStep : StepOf<T, 1> {
  AdagradConstants<T> c;

  KOLO_STEP void operator()(T& parameter, T gradient, T* state) const {
    gradient = gradient + c.decay.in_gradient * parameter;
    state[0] += gradient * gradient;
    const T denominator = std::sqrt(state[0] + c.epsilon_in_root) + c.epsilon_to_root;
    parameter = c.decay.keep * parameter - c.rate * gradient / denominator;
  }
};

template <typename T>
struct AdadeltaConstants {
  DecayConstants<T> decay;
  T rate, rho, one_minus_rho, epsilon;
};

// The state: mean square of the gradient, and of the steps.
template <typename T>
struct AdadeltaStep : StepOf<T, 2> {
  AdadeltaConstants<T> c;

  KOLO_STEP void operator()(T& parameter, T gradient, T* state) const {
    gradient = gradient + c.decay.in_gradient * parameter;
    state[0] = c.rho * state[0] + c.one_minus_rho * gradient * gradient;
    const T delta = std::sqrt(state[1] + c.epsilon) / std::sqrt(state[0] + c.epsilon) * gradient;
    state[1] = c.rho * state[1] + c.one_minus_rho * delta * delta;
    parameter = c.decay.keep * parameter - c.rate * delta;
  }
};

template <typename T>
struct AdamaxConstants {
  DecayConstants<T> decay;
  T beta1, one_minus_beta1, beta2, epsilon;
  T step_size;  // the rate with the bias correction
};

template <typename T>
struct AdamaxStep : StepOf<T, 2> {
  AdamaxConstants<T> c;

  KOLO_STEP void operator()(T& parameter, T gradient, T* state) const {
    gradient = gradient + c.decay.in_gradient * parameter;
    state[0] = c.beta1 * state[0] + c.one_minus_beta1 * gradient;
    const T before = c.beta2 * state[1];
    const T now = std::abs(gradient);
    state[1] = before > now ? before : now;
    parameter = c.decay.keep * parameter - c.step_size * (state[0] / (state[1] + c.epsilon));
  }
};

template <typename T>
struct NadamConstants {
  DecayConstants<T> decay;
  MomentConstants<T> moments;
  T rate;
  T mean_weight, gradient_weight;  // of the two terms of the step
  T root_scale;                    // the bias correction of the second moment's square root
};

template <typename T>
struct NadamStep : StepOf<T, 2> {
  NadamConstants<T> c;

  KOLO_STEP void operator()(T& parameter, T gradient, T* state) const {
    gradient = gradient + c.decay.in_gradient * parameter;
    c.moments.update(state[0], state[1], gradient);
    const T direction = c.mean_weight * state[0] + c.gradient_weight * gradient;
    const T denominator = std::sqrt(state[1]) * c.root_scale + c.moments.epsilon;
    parameter = c.decay.keep * parameter - c.rate * (direction / denominator);
  }
};

// State: the difference between the steps' own sequence and its average.
template <typename T>
struct ScheduleFreeConstants {
  T rate;
  T decay;           // times the parameter, added to the direction
  T direct_rate;     // (1 - momentum) * rate: what the direction moves the parameter by
  T average_weight;  // momentum * weight: how far the parameter follows the average
  T kept;            // 1 - weight
  T beta2, one_minus_beta2, epsilon;
  T root_scale;  // the bias correction of the second moment's square root
};

template <typename T>
KOLO_STEP inline void schedule_free(T& parameter, T direction, T& difference,
                                    const ScheduleFreeConstants<T>& c) {
  direction = direction + c.decay * parameter;
  const T after = difference - c.rate * direction;
  parameter = parameter - c.direct_rate * direction + c.average_weight * after;
  difference = c.kept * after;
}

template <typename T>
struct ScheduleFreeSgdStep : StepOf<T, 1> {
  ScheduleFreeConstants<T> c;

  KOLO_STEP void operator()(T& parameter, T gradient, T* state) const {
    schedule_free(parameter, gradient, state[0], c);
  }
};

template <typename T>
struct ScheduleFreeAdamwStep : StepOf<T, 2> {
  ScheduleFreeConstants<T> c;

  KOLO_STEP void operator()(T& parameter, T gradient, T* state) const {
    state[1] = c.beta2 * state[1] + c.one_minus_beta2 * gradient * gradient;
    const T direction = gradient / (std::sqrt(state[1]) * c.root_scale + c.epsilon);
    schedule_free(parameter, direction, state[0], c);
  }
};

// Steps of whole parameters take a pass for the sums of squares from which a layer's scale follows,
// and then one for the step.

template <typename T>
struct LarsConstants {
  T rate;  // times the layer's scale
  T weight_decay, momentum;
  T trust_coefficient;  // for the scale
};

template <typename T, bool has_momentum>
struct LarsStep : StepOf<T, has_momentum ? 1 : 0> {
  LarsConstants<T> c;

  KOLO_STEP void operator()(T& parameter, T gradient, T* state) const {
    T step = c.rate * (gradient + c.weight_decay * parameter);
    if constexpr (has_momentum) {
      step += c.momentum * state[0];
      state[0] = step;
    }
    parameter -= step;
  }
};

KOLO_STEP inline double lars_scale(double parameter_squares, double gradient_squares,
                                   const LarsConstants<double>& c) {
  const double parameters = std::sqrt(parameter_squares), gradients = std::sqrt(gradient_squares);
  if (parameters == 0 || gradients == 0) return 1;
  return c.trust_coefficient * parameters / (gradients + c.weight_decay * parameters);
}

template <typename T>
struct LambConstants {
  T rate;  // times the layer's scale
  MomentConstants<T> moments;
  T weight_decay;
  T mean_scale, root_scale;  // the bias corrections of the first moment, and of the root
};

template <typename T>
KOLO_STEP inline T lamb_direction(T parameter, T mean, T mean_square, const LambConstants<T>& c) {
  return mean * c.mean_scale / (std::sqrt(mean_square) * c.root_scale + c.moments.epsilon) +
         c.weight_decay * parameter;
}

// Updates the moments and returns the direction that follows from them; the parameter stays.
template <typename T>
KOLO_STEP inline T lamb_moments(T parameter, T gradient, T& mean, T& mean_square,
                                const LambConstants<T>& c) {
  c.moments.update(mean, mean_square, gradient);
  return lamb_direction(parameter, mean, mean_square, c);
}

// Recomputes the direction, which the first pass did not keep.
template <typename T>
struct LambStep : StepOf<T, 2> {
  static constexpr bool changes_state = false;
  LambConstants<T> c;

  KOLO_STEP void operator()(T& parameter, T /*gradient*/, T* state) const {
    parameter -= c.rate * lamb_direction(parameter, state[0], state[1], c);
  }
};

KOLO_STEP inline double lamb_scale(double parameter_squares, double direction_squares) {
  if (parameter_squares == 0 || direction_squares == 0) return 1;
  return std::sqrt(parameter_squares / direction_squares);
}

// Every step, DO(Step<float>, float) and DO(Step<double>, double), for what is compiled once for
// each.
#define KOLO_FOR_EACH_STEP(DO)     \
  KOLO_FOR_EACH_STEP_OF(DO, float) \
  KOLO_FOR_EACH_STEP_OF(DO, double)
#define KOLO_FOR_EACH_STEP_OF(DO, T)  \
  DO(T, SgdStep<T>)                   \
  DO(T, SgdMomentumStep<T, false>)    \
  DO(T, SgdMomentumStep<T, true>)     \
  DO(T, AdamStep<T, false>)           \
  DO(T, AdamStep<T, true>)            \
  DO(T, RmspropStep<T, false, false>) \
  DO(T, RmspropStep<T, false, true>)  \
  DO(T, RmspropStep<T, true, false>)  \
  DO(T, RmspropStep<T, true, true>)   \
  DO(T, AdagradStep<T>)               \
  DO(T, AdadeltaStep<T>)              \
  DO(T, AdamaxStep<T>)                \
  DO(T, NadamStep<T>)                 \
  DO(T, ScheduleFreeSgdStep<T>)       \
  DO(T, ScheduleFreeAdamwStep<T>)     \
  DO(T, LarsStep<T, false>)           \
  DO(T, LarsStep<T, true>)            \
  DO(T, LambStep<T>)

}  // namespace kolo::optim
