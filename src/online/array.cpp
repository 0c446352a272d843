#include "online/samples.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <type_traits>

#include <fmt/format.h>

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

// Loops that go on where the next inner one ends are one loop.
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

// Calls with a value of the array's type.
template <typename Function>
void with_type_of(const Array& array, const Function& function) {
  switch (array.type) {
    case DataType::float64:
      return function(double{});
    case DataType::float32:
      return function(float{});
    case DataType::int64:
      return function(std::int64_t{});
    default:  // SampleArrays refuses all others
      return function(std::int32_t{});
  }
}

template <typename T>
T from_float(double value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(std::llrint(value));
  else
    return static_cast<T>(value);
}

}  // namespace

void read_elements(const Elements& elements, float* values, double mean, double factor) {
  const bool is_plain = mean == 0 && factor == 1;
  with_type_of(*elements.array, [&]<typename T>(T) {
    if (is_plain) {
      return run<const T>(elements, values,
                          [](const T& from, float& to) { to = static_cast<float>(from); });
    }
    using Real = std::conditional_t<sizeof(T) == 8, double, float>;
    const auto middle = static_cast<Real>(mean), scale = static_cast<Real>(factor);
    run<const T>(elements, values, [=](const T& from, float& to) {
      to = static_cast<float>((static_cast<Real>(from) - middle) * scale);
    });
  });
}

void read_elements(const Elements& elements, std::int64_t* values) {
  with_type_of(*elements.array, [&]<typename T>(T) {
    run<const T>(elements, values,
                 [](const T& from, std::int64_t& to) { to = static_cast<std::int64_t>(from); });
  });
}

void write_elements(const Elements& elements, const float* values, double mean, double factor) {
  const bool is_plain = mean == 0 && factor == 1;
  with_type_of(*elements.array, [&]<typename T>(T) {
    if (is_plain) {
      return run<T>(elements, values, [](T& to, const float& from) { to = from_float<T>(from); });
    }
    run<T>(elements, values, [=](T& to, const float& from) {
      to = from_float<T>(static_cast<double>(from) * factor + mean);
    });
  });
}

void write_elements(const Elements& elements, const std::int64_t* values) {
  with_type_of(*elements.array, [&]<typename T>(T) {
    run<T>(elements, values, [](T& to, const std::int64_t& from) { to = static_cast<T>(from); });
  });
}

// Search for arrays that share elements. Interleaved arrays (a component of a vector each) lie in
// the same range of memory and share none.

namespace {

using Address = std::int64_t;

Address begin_of(const Array& array) {
  return reinterpret_cast<Address>(array.data);
}

struct Range {
  Address first = 0, end = 0;
};

Range range_of(const Array& array) {
  const auto size = static_cast<Address>(size_of(array.type));
  Range range{begin_of(array), begin_of(array) + size};
  for (std::size_t i = 0; i < static_cast<std::size_t>(array.dimensions); ++i) {
    const auto reach = (array.shape[i] - 1) * array.stride[i] * size;
    (reach < 0 ? range.first : range.end) += reach;
  }
  return range;
}

// Greatest common divisor of all strides, in bytes: addresses of elements are multiples of it
// apart.
Address common_stride(const Array& array) {
  Address common = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(array.dimensions); ++i) {
    if (array.shape[i] > 1) common = std::gcd(common, array.stride[i]);
  }
  return common * static_cast<Address>(size_of(array.type));
}

// Cheap, and enough for components of one array.
bool are_interleaved(const Array& a, const Array& b) {
  const auto common = std::gcd(common_stride(a), common_stride(b));
  if (common == 0) return false;
  const auto apart = ((begin_of(b) - begin_of(a)) % common + common) % common;
  return apart >= static_cast<Address>(size_of(a.type)) &&
         apart + static_cast<Address>(size_of(b.type)) <= common;
}

std::vector<Address> addresses_of(const Array& array) {
  std::vector<Address> addresses = {begin_of(array)};
  const auto size = static_cast<Address>(size_of(array.type));
  for (std::size_t i = 0; i < static_cast<std::size_t>(array.dimensions); ++i) {
    const auto before = addresses.size();
    for (std::int64_t k = 1; k < array.shape[i]; ++k) {
      for (std::size_t j = 0; j < before; ++j)
        addresses.push_back(addresses[j] + k * array.stride[i] * size);
    }
  }
  std::ranges::sort(addresses);
  return addresses;
}

bool share_an_element(const Array& a, const Array& b) {
  const auto in_a = range_of(a), in_b = range_of(b);
  if (in_a.end <= in_b.first || in_b.end <= in_a.first || are_interleaved(a, b)) return false;
  const auto of_a = addresses_of(a), of_b = addresses_of(b);
  const auto size_a = static_cast<Address>(size_of(a.type));
  const auto size_b = static_cast<Address>(size_of(b.type));
  for (std::size_t i = 0, j = 0; i < of_a.size() && j < of_b.size();) {
    if (of_a[i] < of_b[j] + size_b && of_b[j] < of_a[i] + size_a) return true;
    ++(of_a[i] < of_b[j] ? i : j);
  }
  return false;
}

// Strides from the smallest to the largest, each of which reaches beyond what is within it.
bool is_surely_single(const Array& array) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, length
  for (std::size_t i = 0; i < static_cast<std::size_t>(array.dimensions); ++i) {
    if (array.shape[i] > 1) axes.emplace_back(std::abs(array.stride[i]), array.shape[i]);
  }
  std::ranges::sort(axes);
  std::int64_t reach = 0;
  for (const auto& [stride, length] : axes) {
    if (stride <= reach) return false;
    reach += stride * (length - 1);
  }
  return true;
}

bool has_one_twice(const Array& array) {
  if (is_surely_single(array)) return false;
  const auto addresses = addresses_of(array);
  return std::ranges::adjacent_find(addresses) != addresses.end();
}

}  // namespace

void require_apart(std::span<const Array> outputs, const Call& call) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto name = fmt::format("outputs[{}]", i);
    if (has_one_twice(outputs[i]))
      refuse(call, name, "its strides lead to one element twice, so what is in it is undefined");
    for (std::size_t j = 0; j < i; ++j) {
      if (share_an_element(outputs[j], outputs[i]))
        refuse(call, name, fmt::format("it overlaps outputs[{}]", j));
    }
  }
}

}  // namespace kolo::online
