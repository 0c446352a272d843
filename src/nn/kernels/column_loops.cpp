#include "nn/kernels/column_loops.h"

#include <algorithm>

#include "kolo/base/vectorize.h"

namespace kolo {

KOLO_VECTORIZE
void add_columns(const LineGeometry& line, const float* columns, std::int64_t row, float* input) {
  for (std::int64_t x = 0; x < line.output_length; ++x, columns += row) {
    const std::int64_t from = x * line.stride - line.padding;
    const std::int64_t first = std::max<std::int64_t>(0, -from);
    const std::int64_t last = std::min(line.taps, line.input_length - from);
    const float* __restrict values = columns + first * line.channels;
    float* __restrict into = input + (from + first) * line.channels;
    const std::int64_t count = (last - first) * line.channels;
    for (std::int64_t i = 0; i < count; ++i) into[i] += values[i];
  }
}

}  // namespace kolo
