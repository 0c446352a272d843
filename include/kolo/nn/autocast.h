#pragma once

#include <cstdint>
#include <optional>

#include <torch/types.h>
#include <torch/version.h>

#include <ATen/autocast_mode.h>

#include "kolo/base/enum_names.h"

// LibTorch's automatic mixed precision on CPUs, whose C++ names have changed in 2.4.
namespace kolo {

// What the forward and backward passes compute in where LibTorch holds it safe (convolutions and
// products of matrices); sums, losses and parameters stay in float32.
enum class Precision : std::uint8_t { fp32, bf16, fp16 };

constexpr auto enum_names(Precision) {
  return std::to_array<EnumName<Precision>>(
      {{Precision::fp32, "fp32"}, {Precision::bf16, "bf16"}, {Precision::fp16, "fp16"}});
}

namespace autocast_details {

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
inline bool is_enabled() {
  return at::autocast::is_autocast_enabled(at::kCPU);
}
inline void set_enabled(bool enabled) {
  at::autocast::set_autocast_enabled(at::kCPU, enabled);
}
inline at::ScalarType type() {
  return at::autocast::get_autocast_dtype(at::kCPU);
}
inline void set_type(at::ScalarType type) {
  at::autocast::set_autocast_dtype(at::kCPU, type);
}
#else
inline bool is_enabled() {
  return at::autocast::is_cpu_enabled();
}
inline void set_enabled(bool enabled) {
  at::autocast::set_cpu_enabled(enabled);
}
inline at::ScalarType type() {
  return at::autocast::get_autocast_cpu_dtype();
}
inline void set_type(at::ScalarType type) {
  at::autocast::set_autocast_cpu_dtype(type);
}
#endif

}  // namespace autocast_details

// What LibTorch's operations on this thread are cast to: for kernels that aren't LibTorch's and so
// have to see to it themselves. None: computation is as the tensors are.
[[nodiscard]] inline std::optional<at::ScalarType> autocast_type() {
  if (!autocast_details::is_enabled()) return std::nullopt;
  return autocast_details::type();
}

// While it lives this thread's operations on the CPU are cast; with fp32 they are not. Guards nest.
// Put it around the forward pass alone: backward computes in what forward has computed in.
class AutocastGuard {
 public:
  explicit AutocastGuard(Precision precision)
      : was_enabled_(autocast_details::is_enabled()), type_before_(autocast_details::type()) {
    at::autocast::increment_nesting();
    if (precision != Precision::fp32)
      autocast_details::set_type(precision == Precision::bf16 ? at::kBFloat16 : at::kHalf);
    autocast_details::set_enabled(precision != Precision::fp32);
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;
  ~AutocastGuard() {
    // Casts of weights are kept for the pass: the next one has other weights.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    autocast_details::set_enabled(was_enabled_);
    autocast_details::set_type(type_before_);
  }

 private:
  bool was_enabled_;
  at::ScalarType type_before_;
};

}  // namespace kolo
