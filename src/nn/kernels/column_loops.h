#pragma once

#include <cstdint>

namespace kolo {

// Lines along the last dimension: of what a convolution reads, [length, channels] in memory, and of
// what it makes, whose every position comes from `taps` neighbours.
struct LineGeometry {
  std::int64_t input_length = 0, output_length = 0, channels = 0;
  std::int64_t taps = 0, stride = 0, padding = 0;
};

// Adds to an input line what the positions of an output line have for it: row x of `columns`, rows
// being `row` values apart, is [taps, channels] for the neighbours of position x. What falls on
// padding is left out.
void add_columns(const LineGeometry& line, const float* columns, std::int64_t row, float* input);

}  // namespace kolo
