#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "online/sample_arrays.h"

// Whether arrays share elements. Interleaved arrays (a component of a vector each) lie in the same
// range of memory and share none.
namespace kolo::online {

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

// Of all strides, in bytes: addresses of elements are multiples of it apart.
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
