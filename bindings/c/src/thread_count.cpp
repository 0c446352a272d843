#include "thread_count.h"

// Weak: which OpenMP there is, or none, is LibTorch's and the program's choice.
extern "C" {
[[gnu::weak]] int omp_get_max_threads(void);
[[gnu::weak]] void omp_set_num_threads(int threads);
}

namespace kolo::bindings {

ThreadCount::ThreadCount(int threads) noexcept {
  if (threads <= 0 || omp_get_max_threads == nullptr || omp_set_num_threads == nullptr) return;
  before_ = omp_get_max_threads();
  omp_set_num_threads(threads);
}

ThreadCount::~ThreadCount() {
  if (before_ > 0) omp_set_num_threads(before_);
}

}  // namespace kolo::bindings
