#pragma once

#include <optional>

#include <torch/types.h>
#include <torch/version.h>

#include <ATen/autocast_mode.h>

#include "kolo/kernels/precision.h"

// LibTorch's automatic mixed precision, whose C++ names have changed in 2.4.
namespace kolo {

namespace autocast_details {

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
inline bool is_enabled(at::DeviceType device) {
  return at::autocast::is_autocast_enabled(device);
}
inline void set_enabled(at::DeviceType device, bool enabled) {
  at::autocast::set_autocast_enabled(device, enabled);
}
inline at::ScalarType type(at::DeviceType device) {
  return at::autocast::get_autocast_dtype(device);
}
inline void set_type(at::DeviceType device, at::ScalarType type) {
  at::autocast::set_autocast_dtype(device, type);
}
#else  // CUDA's are those without a device in their name
inline bool is_enabled(at::DeviceType device) {
  return device == at::kCPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
}
inline void set_enabled(at::DeviceType device, bool enabled) {
  device == at::kCPU ? at::autocast::set_cpu_enabled(enabled) : at::autocast::set_enabled(enabled);
}
inline at::ScalarType type(at::DeviceType device) {
  return device == at::kCPU ? at::autocast::get_autocast_cpu_dtype()
                            : at::autocast::get_autocast_gpu_dtype();
}
inline void set_type(at::DeviceType device, at::ScalarType type) {
  device == at::kCPU ? at::autocast::set_autocast_cpu_dtype(type)
                     : at::autocast::set_autocast_gpu_dtype(type);
}
#endif

}  // namespace autocast_details

// Type that LibTorch casts this thread's operations on the CPU to, which kernels of kolo's own have
// to do themselves. None: nothing is cast.
[[nodiscard]] inline std::optional<at::ScalarType> autocast_type() {
  if (!autocast_details::is_enabled(at::kCPU)) return std::nullopt;
  return autocast_details::type(at::kCPU);
}

// While it lives, this thread's operations on a kind of device are cast; with fp32 they are not.
// Guards nest. Put it around the forward pass alone: backward computes in forward's types.
class AutocastGuard {
 public:
  explicit AutocastGuard(Precision precision, at::DeviceType device = at::kCPU)
      : device_(device),
        was_enabled_(autocast_details::is_enabled(device)),
        type_before_(autocast_details::type(device)) {
    at::autocast::increment_nesting();
    if (precision != Precision::fp32)
      autocast_details::set_type(device, precision == Precision::bf16 ? at::kBFloat16 : at::kHalf);
    autocast_details::set_enabled(device, precision != Precision::fp32);
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;
  ~AutocastGuard() {
    // Casts of weights are kept for the pass: the next one has other weights.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    autocast_details::set_enabled(device_, was_enabled_);
    autocast_details::set_type(device_, type_before_);
  }

 private:
  at::DeviceType device_;
  bool was_enabled_;
  at::ScalarType type_before_;
};

}  // namespace kolo
