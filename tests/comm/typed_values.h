#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "comm/with_type.h"
#include "kolo/comm/data_type.h"

namespace kolo::testing {

// Values of any element type, set and read as doubles.
class TypedValues {
 public:
  TypedValues(DataType type, std::int64_t count)
      : type_(type), count_(count), bytes_(static_cast<std::size_t>(count) * size_of(type)) {}

  [[nodiscard]] Buffer buffer() { return {bytes_.data(), count_, type_}; }
  [[nodiscard]] std::int64_t count() const { return count_; }

  void set(std::int64_t index, double value) {
    with_type(type_, [&](auto element) {
      if constexpr (std::is_same_v<decltype(element), Float16>)
        element = to_float16(static_cast<float>(value));
      else if constexpr (std::is_same_v<decltype(element), BFloat16>)
        element = to_bfloat16(static_cast<float>(value));
      else
        element = static_cast<decltype(element)>(value);
      std::memcpy(bytes_.data() + offset_of(index), &element, sizeof(element));
    });
  }

  [[nodiscard]] double get(std::int64_t index) const {
    return with_type(type_, [&](auto element) -> double {
      std::memcpy(&element, bytes_.data() + offset_of(index), sizeof(element));
      if constexpr (std::is_class_v<decltype(element)>)
        return to_float(element);
      else
        return static_cast<double>(element);
    });
  }

 private:
  [[nodiscard]] std::size_t offset_of(std::int64_t index) const {
    return static_cast<std::size_t>(index) * size_of(type_);
  }

  DataType type_;
  std::int64_t count_;
  std::vector<std::byte> bytes_;
};

constexpr ReduceOp all_ops[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                                ReduceOp::product};

// Calls function(type, op) for all that there are: booleans have no average.
template <typename Function>
void for_types_and_ops(const Function& function) {
  for (const DataType type : all_data_types) {
    for (const ReduceOp op : all_ops) {
      if (type != DataType::boolean || op != ReduceOp::average) function(type, op);
    }
  }
}

// Reduction of value_of(rank) over the ranks, in doubles.
template <typename Ranks, typename ValueOf>
[[nodiscard]] double reduced(DataType type, ReduceOp op, const Ranks& ranks,
                             const ValueOf& value_of) {
  double sum = 0, product = 1, least = INFINITY, greatest = -INFINITY;
  int count = 0;
  for (const int rank : ranks) {
    const double value = value_of(rank);
    sum += value;
    product *= value;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    ++count;
  }
  switch (op) {
    case ReduceOp::sum:
      return type == DataType::boolean ? greatest : sum;
    case ReduceOp::average:
      return type <= DataType::bfloat16 ? sum / count : std::trunc(sum / count);
    case ReduceOp::product:
      return product;
    case ReduceOp::min:
      return least;
    default:
      return greatest;
  }
}

// Error of a result, relative where it is above 1: quotients are rounded to the type's fraction.
[[nodiscard]] inline double tolerance_of(DataType type) {
  constexpr double of_floats[] = {1e-14, 1e-6, 2e-3, 1.6e-2};
  return type <= DataType::bfloat16 ? of_floats[static_cast<std::size_t>(type)] : 0;
}

// Expects expected(index) everywhere, but for an error of limit(index, expected(index)). Tells the
// first that is wrong, so that a failure prints one line and not thousands.
template <typename Expected, typename Limit>
void expect_values(const TypedValues& values, DataType type, std::string_view what,
                   const Expected& expected, const Limit& limit) {
  for (std::int64_t i = 0; i < values.count(); ++i) {
    const double want = expected(i);
    if (std::abs(values.get(i) - want) <= limit(i, want)) continue;
    ADD_FAILURE() << what << " of " << values.count() << " " << name_of(type) << ": element " << i
                  << " is " << values.get(i) << ", not " << want;
    return;
  }
}

// The same, as exactly as the type holds it.
template <typename Expected>
void expect_values(const TypedValues& values, DataType type, std::string_view what,
                   const Expected& expected) {
  expect_values(values, type, what, expected, [&](std::int64_t, double want) {
    return tolerance_of(type) * std::max(1.0, std::abs(want));
  });
}

}  // namespace kolo::testing
