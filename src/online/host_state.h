#pragma once

#include <cfenv>

#include <sched.h>

#include "base/openmp.h"

namespace kolo::online {

// Saves the program's state and restores it at the end of a call into kolo: this thread's number of
// OpenMP threads and whether it may get fewer, its floating-point environment (traps, rounding,
// denormals) and its processors. Within the call OpenMP and LibTorch use as many threads as the
// program's OpenMP would, and floating-point traps are off (LibTorch makes harmless NaNs).
//
// LibTorch sets a thread's number of OpenMP threads itself, unasked, when it first computes there
// (at::init_num_threads).
class HostState {
 public:
  HostState();
  HostState(const HostState&) = delete;
  HostState& operator=(const HostState&) = delete;
  ~HostState();

 private:
  std::fenv_t floating_point_{};
  cpu_set_t processors_{};
  bool has_processors_ = false;
  PromisedThreads promised_;
  int openmp_threads_ = 0;  // 0: there is no OpenMP
};

// Sets the number of threads that the calling thread computes with; 0: LibTorch's default.
void compute_with(int threads);
// Number of threads of the program's OpenMP; 0: it has none.
[[nodiscard]] int openmp_threads();

// Sets OpenBLAS's number of threads, which is the whole process's, to that of the caller's OpenMP,
// and restores it when the last instance ends. For calls that train.
class BlasThreads {
 public:
  BlasThreads();
  BlasThreads(const BlasThreads&) = delete;
  BlasThreads& operator=(const BlasThreads&) = delete;
  ~BlasThreads();
};

}  // namespace kolo::online
