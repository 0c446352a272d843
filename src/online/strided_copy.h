#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kolo/online/array.h"

// Elements of host programs' arrays, wherever they lie, from and to contiguous values.
namespace kolo::online {

// One loop over elements of an array: how many, how far apart there, how far apart in the values.
struct Loop {
  std::int64_t count = 1;
  std::int64_t in_array = 0, in_values = 0;
};

// Some elements of an array and their places among contiguous values. Loops are nested, the first
// one outermost.
struct Elements {
  const Array* array = nullptr;
  std::int64_t first_in_array = 0, first_in_values = 0;
  std::array<Loop, most_array_dimensions + 1> loops{};
  std::size_t n_loops = 0;

  void add(const Loop& loop);
};

// values = (elements - mean) x factor, in float32; the subtraction is done in float64 for arrays of
// 64 bits.
void read_elements(const Elements& elements, float* values, double mean = 0, double factor = 1);
void read_elements(const Elements& elements, std::int64_t* values);
// elements = values x factor + mean; of integers rounded to the nearest.
void write_elements(const Elements& elements, const float* values, double mean = 0,
                    double factor = 1);
void write_elements(const Elements& elements, const std::int64_t* values);

}  // namespace kolo::online
