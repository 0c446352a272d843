#include "arrays.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include <fmt/format.h>

#include "kolo/base/checked.h"

namespace kolo::bindings {

namespace {

constexpr std::int32_t most_dimensions = 8;
static_assert(most_array_dimensions == most_dimensions);

std::optional<DataType> type_of(std::int32_t dtype) {
  switch (dtype) {
    case KOLO_FLOAT32:
      return DataType::float32;
    case KOLO_FLOAT64:
      return DataType::float64;
    case KOLO_INT32:
      return DataType::int32;
    case KOLO_INT64:
      return DataType::int64;
    default:
      return std::nullopt;
  }
}

// Strides of an array without gaps.
void make_dense(const kolo_array& array, std::span<std::int64_t> stride) {
  std::int64_t next = 1;
  for (std::int32_t i = 0; i < array.rank; ++i) {
    const auto dimension = array.order == KOLO_ROW ? array.rank - 1 - i : i;
    stride[dimension] = next;
    next = checked_multiply(next, array.shape[dimension]);
  }
}

// Throws Error if an element lies beyond the address space.
void check_extent(const kolo_array& array, std::span<const std::int64_t> stride, DataType type) {
  std::int64_t furthest = 1;
  for (std::int32_t i = 0; i < array.rank; ++i) {
    const auto steps = checked_multiply(array.shape[i] - 1, stride[i]);
    furthest = checked_add(furthest, steps < 0 ? checked_multiply<std::int64_t>(steps, -1) : steps);
  }
  (void)checked_multiply(furthest, static_cast<std::int64_t>(size_of(type)));
}

Array array_of(const std::string& name, const kolo_array& given) {
  const auto refuse = [&](const std::string& what) { throw InputError(name + ": " + what); };
  const auto type = type_of(given.dtype);
  if (!type)
    refuse(
        fmt::format("dtype is {}; expected KOLO_FLOAT32 (1), KOLO_FLOAT64 (2), KOLO_INT32 (3) "
                    "or KOLO_INT64 (4)",
                    given.dtype));
  if (given.rank < 1 || given.rank > most_dimensions)
    refuse(fmt::format("rank is {}; expected 1 to {} dimensions", given.rank, most_dimensions));
  if (given.order != KOLO_ROW && given.order != KOLO_COLUMN)
    refuse(fmt::format("order is {}; expected KOLO_ROW (0) or KOLO_COLUMN (1)", given.order));
  for (std::int32_t i = 0; i < given.rank; ++i)
    if (given.shape[i] < 1)
      refuse(fmt::format("shape[{}] is {}; expected at least 1", i, given.shape[i]));
  if (given.data == nullptr) refuse("data is null; expected the address of the first element");

  Array array;
  array.data = given.data;
  array.type = *type;
  array.dimensions = given.rank;
  const std::span stride(array.stride.data(), static_cast<std::size_t>(given.rank));
  try {
    std::copy_n(given.stride, given.rank, stride.begin());
    if (std::all_of(stride.begin(), stride.end(), [](auto each) { return each == 0; }))
      make_dense(given, stride);
    check_extent(given, stride, *type);
  } catch (const Error& error) {
    refuse(std::string("shape and strides reach beyond all memory (") + error.what() + ")");
  }
  std::copy_n(given.shape, given.rank, array.shape.begin());
  if (given.order == KOLO_COLUMN) {
    std::reverse(array.shape.begin(), array.shape.begin() + given.rank);
    std::reverse(stride.begin(), stride.end());
  }
  return array;
}

}  // namespace

std::vector<Array> arrays_of(const char* name, const kolo_array* arrays, std::int32_t count) {
  if (count < 0) throw InputError(fmt::format("n_{} is {}; expected 0 or more", name, count));
  if (count > 0 && arrays == nullptr)
    throw InputError(
        fmt::format("{} is null; expected {} array{}", name, count, count == 1 ? "" : "s"));
  std::vector<Array> made;
  made.reserve(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i)
    made.push_back(array_of(fmt::format("{}[{}]", name, i), arrays[i]));
  return made;
}

}  // namespace kolo::bindings
