#pragma once

#include <cfenv>

#include <sched.h>

#include "base/openmp.h"

namespace kolo::online {

// State that a call into kolo leaves as the program had it: this thread's number of OpenMP threads
// and whether it may get fewer, its floating-point environment (traps, rounding, denormals) and its
// processors. Within the call OpenMP and LibTorch compute with as many threads as the program's
// OpenMP would, and floating-point traps are off (LibTorch makes NaNs that do no harm).
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

// A thread of kolo's own computes with so many threads from now on; 0: with LibTorch's number.
void compute_with(int threads);
// Number of threads of the program's OpenMP; 0: it has none.
[[nodiscard]] int openmp_threads();

// OpenBLAS has one number of threads for the whole process. While one or more of these live it is
// that of the first one's OpenMP; afterwards it is again what it was. For calls that train.
class BlasThreads {
 public:
  BlasThreads();
  BlasThreads(const BlasThreads&) = delete;
  BlasThreads& operator=(const BlasThreads&) = delete;
  ~BlasThreads();
};

}  // namespace kolo::online
