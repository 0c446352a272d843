#pragma once

#include <cstdint>

#include "kolo/base/checked.h"
#include "kolo/layout/spatial_plan.h"

namespace kolo {

// Quotients of any numbers and a positive divisor, rounded towards minus infinity and up.
constexpr std::int64_t divide_down(std::int64_t number, std::int64_t divisor) {
  return number / divisor - (number % divisor < 0 ? 1 : 0);
}
constexpr std::int64_t divide_up(std::int64_t number, std::int64_t divisor) {
  return -divide_down(-number, divisor);
}

// Rows from the first that a window of the layer reads to one past its last.
inline std::int64_t window_rows(const AxisLayer& layer) {
  return checked_add(checked_multiply(layer.dilation, layer.kernel - 1), std::int64_t{1});
}

}  // namespace kolo
