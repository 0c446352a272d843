#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
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

// A result's error, relative where it is above 1: a quotient is rounded to the type's fraction;
// all else is exact.
inline double tolerance_of(DataType type) {
  switch (type) {
    case DataType::float32:
      return 1e-6;
    case DataType::float16:
      return 2e-3;
    case DataType::bfloat16:
      return 1.6e-2;
    default:
      return 1e-14;
  }
}

// Compares each value with expected(index), and names the first wrong one, so that a failure prints
// one line and not thousands.
template <typename Expected>
void expect_reduced(const TypedValues& values, DataType type, ReduceOp op,
                    const Expected& expected) {
  for (std::int64_t i = 0; i < values.count(); ++i) {
    const double want = expected(i);
    if (std::abs(values.get(i) - want) > tolerance_of(type) * std::max(1.0, std::abs(want))) {
      ADD_FAILURE() << name_of(type) << " " << name_of(op) << ", " << values.count()
                    << " elements: element " << i << " is " << values.get(i) << ", expected "
                    << want;
      return;
    }
  }
}

}  // namespace kolo::testing
