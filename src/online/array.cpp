#include "kolo/online/array.h"

#include <algorithm>

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
