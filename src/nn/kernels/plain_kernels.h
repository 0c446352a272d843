#pragma once

#include <utility>

namespace kolo {

// While one lives, this thread's networks compute by LibTorch's own operators instead of kolo's
// kernels: for what watches operators, and as the reference in tests.
class PlainKernels {
 public:
  PlainKernels() : before_(std::exchange(wanted, true)) {}
  PlainKernels(const PlainKernels&) = delete;
  PlainKernels& operator=(const PlainKernels&) = delete;
  ~PlainKernels() { wanted = before_; }

  [[nodiscard]] static bool are_wanted() { return wanted; }

 private:
  // By thread, as LibTorch's own modes (NoGradGuard, AutoGradMode) are: ranks may be threads.
  inline static thread_local bool wanted = false;

  bool before_;
};

}  // namespace kolo
