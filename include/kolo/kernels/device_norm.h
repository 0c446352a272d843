#pragma once

#include <utility>

namespace kolo {

// While one lives that says so, this thread's networks compute batch norms on CUDA devices, with
// the sum and the ReLU that follow, by kolo's kernels instead of cuDNN's and LibTorch's: two passes
// that read and one that writes, each way. For float32, float16 and bfloat16 in channels-last
// memory, in training.
class DeviceNorm {
 public:
  explicit DeviceNorm(bool is_wanted) : before_(std::exchange(wanted, is_wanted)) {}
  DeviceNorm(const DeviceNorm&) = delete;
  DeviceNorm& operator=(const DeviceNorm&) = delete;
  ~DeviceNorm() { wanted = before_; }

  [[nodiscard]] static bool is_wanted() { return wanted; }

 private:
  // By thread, as LibTorch's own modes are.
  inline static thread_local bool wanted = false;

  bool before_;
};

}  // namespace kolo
