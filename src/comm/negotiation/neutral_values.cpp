#include "comm/negotiation/neutral_values.h"

#include <algorithm>
#include <limits>

#include "comm/shared_memory/half.h"

namespace kolo {

namespace {

template <typename T>
T neutral(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::product:
      return 1;
    case ReduceOp::min:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case ReduceOp::max:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    default:
      return 0;
  }
}

template <typename T>
void fill(std::byte* values, T value, std::int64_t count) {
  std::fill_n(reinterpret_cast<T*>(values), count, value);
}

}  // namespace

void fill_neutral(DataType type, ReduceOp op, std::byte* values, std::int64_t count) {
  switch (type) {
    case DataType::float64:
      return fill(values, neutral<double>(op), count);
    case DataType::float32:
      return fill(values, neutral<float>(op), count);
    case DataType::float16:
      return fill(values, to_float16(neutral<float>(op)), count);
    case DataType::bfloat16:
      return fill(values, to_bfloat16(neutral<float>(op)), count);
    case DataType::int64:
      return fill(values, neutral<std::int64_t>(op), count);
    case DataType::int32:
      return fill(values, neutral<std::int32_t>(op), count);
    case DataType::int16:
      return fill(values, neutral<std::int16_t>(op), count);
    case DataType::int8:
      return fill(values, neutral<std::int8_t>(op), count);
    case DataType::uint8:
      return fill(values, neutral<std::uint8_t>(op), count);
    case DataType::boolean: {
      const bool is_and = op == ReduceOp::min || op == ReduceOp::product;
      return fill(values, static_cast<std::uint8_t>(is_and), count);
    }
  }
}

}  // namespace kolo
