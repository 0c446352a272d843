#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <torch/types.h>

namespace kolo {

// The floating-point operations of one call of an ATen operator, counted as LayerSummary::flops
// says. The name is without "aten::" and the underscore of those in place.
[[nodiscard]] std::int64_t operator_flops(std::string_view name,
                                          std::span<const c10::IValue> inputs,
                                          const torch::Tensor& output);

}  // namespace kolo
