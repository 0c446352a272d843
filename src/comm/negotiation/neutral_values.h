#pragma once

#include <cstddef>
#include <cstdint>

#include "kolo/comm/data_type.h"

namespace kolo {

// Sets `count` elements to what a reduction leaves as it is: 0 for sum and average, 1 for product,
// the greatest value (infinity) for min, the least for max; of booleans false for sum (or) and max,
// true for product (and) and min.
void fill_neutral(DataType type, ReduceOp op, std::byte* values, std::int64_t count);

}  // namespace kolo
