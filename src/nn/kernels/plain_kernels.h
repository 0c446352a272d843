#pragma once

namespace kolo {

// While one lives, this thread's networks compute by LibTorch's own operators instead of kolo's
// kernels: for what watches operators, and as the reference in tests.
class PlainKernels {
 public:
  PlainKernels();
  PlainKernels(const PlainKernels&) = delete;
  PlainKernels& operator=(const PlainKernels&) = delete;
  ~PlainKernels();

  [[nodiscard]] static bool are_wanted();

 private:
  bool before_;
};

}  // namespace kolo
