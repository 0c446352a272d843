#include "optim/kernels.h"

#include <array>

#include "kolo/base/vectorize.h"

namespace kolo::optim {

namespace {

// The step comes by value: through a reference the compiler would have to assume that a store to
// the buffers changes its constants.
template <typename Step, typename T>
KOLO_INLINE inline void loop(const Step step, T* __restrict parameters,
                             const T* __restrict gradients, T* __restrict first,
                             T* __restrict second, T* __restrict third, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    T state[3];
    if constexpr (Step::states > 0) state[0] = first[i];
    if constexpr (Step::states > 1) state[1] = second[i];
    if constexpr (Step::states > 2) state[2] = third[i];
    step(parameters[i], gradients[i], state);
    if constexpr (Step::changes_state) {
      if constexpr (Step::states > 0) first[i] = state[0];
      if constexpr (Step::states > 1) second[i] = state[1];
      if constexpr (Step::states > 2) third[i] = state[2];
    }
  }
}

template <typename Step, typename T>
KOLO_INLINE inline void run(const Step& step, const FlatSlice<T>& slice) {
  loop(step, slice.parameters.data(), slice.gradients.data(), slice.state[0].data(),
       slice.state[1].data(), slice.state[2].data(), slice.parameters.size());
}

// Lifts a condition on the constants out of the loop: one loop for each case.
template <typename T, bool nesterov>
KOLO_INLINE inline void run_either(SgdMomentumStep<T, nesterov> step, const FlatSlice<T>& slice) {
  if (step.c.first_step != 0) {
    step.c.first_step = 1;
    run(step, slice);
  } else {
    step.c.first_step = 0;
    run(step, slice);
  }
}

template <typename Step, typename T>
KOLO_INLINE inline void run_either(const Step& step, const FlatSlice<T>& slice) {
  run(step, slice);
}

}  // namespace

#define KOLO_DEFINE_STEPS(T, ...)                                      \
  KOLO_VECTORIZE                                                       \
  void run_steps(const __VA_ARGS__& step, const FlatSlice<T>& slice) { \
    run_either(step, slice);                                           \
  }
KOLO_FOR_EACH_STEP(KOLO_DEFINE_STEPS)
#undef KOLO_DEFINE_STEPS

namespace {

// Accumulators side by side: enough for the widest vectors, and one order of additions for all.
constexpr std::size_t strands = 16;

using Strands = std::array<double, strands>;

template <typename T>
inline void add_squares(Strands& sums, const T* __restrict values) {
  for (std::size_t strand = 0; strand < strands; ++strand) {
    const auto value = static_cast<double>(values[strand]);
    sums[strand] += value * value;
  }
}

inline double total_of(Strands& sums) {
  for (std::size_t half = strands / 2; half > 0; half /= 2) {
    for (std::size_t strand = 0; strand < half; ++strand) sums[strand] += sums[strand + half];
  }
  return sums[0];
}

}  // namespace

template <typename T>
KOLO_VECTORIZE double sum_of_squares(const T* values, std::size_t size) {
  Strands sums{};
  std::size_t i = 0;
  for (; i + strands <= size; i += strands) add_squares(sums, values + i);
  std::array<T, strands> rest{};
  for (std::size_t strand = 0; i < size; ++i, ++strand) rest[strand] = values[i];
  add_squares(sums, rest.data());
  return total_of(sums);
}

template <typename T>
KOLO_VECTORIZE void lamb_directions(const T* __restrict parameters, const T* __restrict gradients,
                                    T* __restrict mean, T* __restrict mean_square,
                                    T* __restrict directions, std::size_t size,
                                    const LambConstants<T>& constants) {
  const LambConstants<T> c = constants;  // by value, as above
  for (std::size_t i = 0; i < size; ++i)
    directions[i] = lamb_moments(parameters[i], gradients[i], mean[i], mean_square[i], c);
}

template double sum_of_squares(const float*, std::size_t);
template double sum_of_squares(const double*, std::size_t);
template void lamb_directions(const float*, const float*, float*, float*, float*, std::size_t,
                              const LambConstants<float>&);
template void lamb_directions(const double*, const double*, double*, double*, double*, std::size_t,
                              const LambConstants<double>&);

}  // namespace kolo::optim
