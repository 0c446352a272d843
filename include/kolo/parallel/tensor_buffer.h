#pragma once

#include <torch/types.h>

#include "kolo/comm/data_type.h"

namespace kolo {

// Error for a dtype that has no DataType (complex, quantized).
[[nodiscard]] DataType data_type_of(torch::ScalarType type);
[[nodiscard]] torch::ScalarType scalar_type_of(DataType type);

// The memory of a contiguous tensor in CPU memory; Error for any other.
[[nodiscard]] Buffer buffer_of(const torch::Tensor& contiguous);

}  // namespace kolo
