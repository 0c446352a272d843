#include "optim/kernels.h"

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

// A condition on the constants that leaves the loop: one for each case.
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

}  // namespace kolo::optim
