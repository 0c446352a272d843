#include "online/samples.h"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "comm/with_type.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

Array::Array(void* values, DataType element, std::span<const std::int64_t> lengths,
             std::span<const std::int64_t> strides)
    : data(values), type(element), dimensions(static_cast<int>(lengths.size())) {
  if (lengths.size() > most_array_dimensions) {
    throw InputError(fmt::format("online: an array of {} dimensions; expected at most {}",
                                 lengths.size(), most_array_dimensions));
  }
  if (!strides.empty() && strides.size() != lengths.size()) {
    throw InputError(
        fmt::format("online: an array of {} dimensions with {} strides; expected one "
                    "per dimension, or none",
                    lengths.size(), strides.size()));
  }
  std::copy(lengths.begin(), lengths.end(), shape.begin());
  std::copy(strides.begin(), strides.end(), stride.begin());
  if (!strides.empty()) return;
  std::int64_t dense = 1;
  for (auto axis = lengths.size(); axis-- > 0;) {
    stride[axis] = dense;
    dense = checked_multiply(dense, std::max<std::int64_t>(lengths[axis], 1));
  }
}

std::int64_t Array::count() const {
  return checked_product(lengths());
}

}  // namespace kolo

namespace kolo::online {

// Merges a loop with the outer one if the two are contiguous.
void Elements::add(const Loop& loop) {
  if (loop.count == 1) return;
  if (n_loops > 0) {
    Loop& outer = loops[n_loops - 1];
    if (outer.in_array == loop.count * loop.in_array &&
        outer.in_values == loop.count * loop.in_values) {
      outer = {outer.count * loop.count, loop.in_array, loop.in_values};
      return;
    }
  }
  loops.at(n_loops++) = loop;
}

namespace {

template <typename T, typename Value, typename Element>
void run_loops(std::span<const Loop> loops, T* array, Value* values, const Element& element) {
  if (loops.empty()) return element(*array, *values);
  const Loop& loop = loops.front();
  if (loops.size() > 1) {
    for (std::int64_t i = 0; i < loop.count; ++i)
      run_loops(loops.subspan(1), array + i * loop.in_array, values + i * loop.in_values, element);
    return;
  }
  if (loop.in_array == 1 && loop.in_values == 1) {
    for (std::int64_t i = 0; i < loop.count; ++i) element(array[i], values[i]);
    return;
  }
  for (std::int64_t i = 0; i < loop.count; ++i)
    element(array[i * loop.in_array], values[i * loop.in_values]);
}

template <typename T, typename Value, typename Element>
void run(const Elements& elements, Value* values, const Element& element) {
  run_loops(std::span(elements.loops.data(), elements.n_loops),
            static_cast<T*>(elements.array->data) + elements.first_in_array,
            values + elements.first_in_values, element);
}

// Calls with a value of the array's type. SampleArrays refuses arrays of 16-bit floats.
template <typename Function>
void with_type_of(const Array& array, const Function& function) {
  with_type(array.type, [&]<typename T>(T) {
    if constexpr (std::is_arithmetic_v<T>) function(T{});
  });
}

template <typename T, typename Value>
T rounded(Value value) {
  if constexpr (std::is_integral_v<T> && std::is_floating_point_v<Value>)
    return static_cast<T>(std::llrint(value));
  else
    return static_cast<T>(value);
}

}  // namespace

template <typename Value>
void read_elements(const Elements& elements, Value* values, double mean, double factor) {
  const bool is_plain = mean == 0 && factor == 1;
  with_type_of(*elements.array, [&]<typename T>(T) {
    if (is_plain) {
      return run<const T>(elements, values,
                          [](const T& from, Value& to) { to = static_cast<Value>(from); });
    }
    run<const T>(elements, values, [=](const T& from, Value& to) {
      to = static_cast<Value>((static_cast<double>(from) - mean) * factor);
    });
  });
}
template void read_elements(const Elements&, float*, double, double);
template void read_elements(const Elements&, std::int64_t*, double, double);

template <typename Value>
void write_elements(const Elements& elements, const Value* values, double mean, double factor) {
  const bool is_plain = mean == 0 && factor == 1;
  with_type_of(*elements.array, [&]<typename T>(T) {
    if (is_plain)
      return run<T>(elements, values, [](T& to, const Value& from) { to = rounded<T>(from); });
    run<T>(elements, values, [=](T& to, const Value& from) {
      to = rounded<T>(static_cast<double>(from) * factor + mean);
    });
  });
}
template void write_elements(const Elements&, const float*, double, double);
template void write_elements(const Elements&, const std::int64_t*, double, double);

}  // namespace kolo::online
