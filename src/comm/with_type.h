#pragma once

#include <cstdint>

#include "base/half.h"
#include "kolo/comm/data_type.h"

namespace kolo {

// Calls the function with a value of the type that elements have in C++, and returns its result.
template <typename Function>
decltype(auto) with_type(DataType type, const Function& function) {
  switch (type) {
    case DataType::float64:
      return function(double{});
    case DataType::float32:
      return function(float{});
    case DataType::float16:
      return function(Float16{});
    case DataType::bfloat16:
      return function(BFloat16{});
    case DataType::int64:
      return function(std::int64_t{});
    case DataType::int32:
      return function(std::int32_t{});
    case DataType::int16:
      return function(std::int16_t{});
    case DataType::int8:
      return function(std::int8_t{});
    case DataType::uint8:
    case DataType::boolean:
      break;
  }
  return function(std::uint8_t{});
}

}  // namespace kolo
