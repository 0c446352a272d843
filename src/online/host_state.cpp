#include "online/inside.h"

#include <cstring>

#include <ATen/Parallel.h>

// Weak symbols, because a program may have another BLAS.
extern "C" {
int openblas_get_num_threads() __attribute__((weak));
void openblas_set_num_threads(int) __attribute__((weak));
}

namespace kolo::online {

namespace {

// Triggers LibTorch's first computation in a thread, which changes the number of OpenMP threads, so
// that the caller can set it right.
void begin_libtorch() {
  thread_local const int begun = at::get_num_threads();
  (void)begun;
}

}  // namespace

HostState::HostState() {
  std::feholdexcept(&floating_point_);
  has_processors_ = ::sched_getaffinity(0, sizeof(processors_), &processors_) == 0;
  begin_libtorch();
  if (openmp_threads() != openmp_threads_) set_openmp_threads(openmp_threads_);
}

HostState::~HostState() {
  if (openmp_threads() != openmp_threads_) set_openmp_threads(openmp_threads_);
  cpu_set_t now{};
  if (has_processors_ && ::sched_getaffinity(0, sizeof(now), &now) == 0 &&
      std::memcmp(&now, &processors_, sizeof(now)) != 0)
    ::sched_setaffinity(0, sizeof(processors_), &processors_);
  std::fesetenv(&floating_point_);
}

void compute_with(int threads) {
  begin_libtorch();
  promise_threads();
  if (threads > 0) set_openmp_threads(threads);
}

namespace {

// OpenBLAS's number of threads before the first BlasThreads, and how many of these live.
struct BlasState {
  std::mutex mutex;
  int users = 0;
  int before = 0;
};

BlasState blas_state;

}  // namespace

BlasThreads::BlasThreads() {
  if (openblas_get_num_threads == nullptr || openmp_threads() == 0) return;
  const std::lock_guard lock(blas_state.mutex);
  if (blas_state.users++ > 0) return;
  blas_state.before = openblas_get_num_threads();
  const int wanted = openmp_threads();
  if (wanted != blas_state.before) openblas_set_num_threads(wanted);
}

BlasThreads::~BlasThreads() {
  if (openblas_get_num_threads == nullptr || openmp_threads() == 0) return;
  const std::lock_guard lock(blas_state.mutex);
  if (--blas_state.users > 0 || openblas_get_num_threads() == blas_state.before) return;
  openblas_set_num_threads(blas_state.before);
}

}  // namespace kolo::online
