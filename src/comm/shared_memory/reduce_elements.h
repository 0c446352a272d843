#pragma once

#include <cstdint>
#include <type_traits>

#include "base/half.h"
#include "kolo/base/host_device.h"
#include "kolo/base/vectorize.h"
#include "kolo/comm/data_type.h"

// What a reduction does with an element, written once for the loops on processors
// (reduce_kernels.cpp) and on CUDA devices (cuda/reduce_kernels.cu), which give the same bits:
// neither fuses a multiplication with an addition.
namespace kolo::reduction {

#define KOLO_ELEMENT KOLO_HOST_DEVICE KOLO_INLINE

// Holds the sum of 2^63 of the widest integers.
__extension__ typedef __int128 WidestInteger;

// A zero of the type in which values of a stored type are reduced: of integers an unsigned one, so
// that overflow wraps round instead of being undefined (comparisons convert back).
template <typename T, ReduceOp op>
constexpr auto zero_to_reduce_to() {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return float{0};
  else if constexpr (std::is_floating_point_v<T>)
    return T{0};
  else if constexpr (op == ReduceOp::average)
    return std::conditional_t<sizeof(T) == 8, WidestInteger, std::int64_t>{0};
  else
    return std::make_unsigned_t<T>{0};
}
template <typename T, ReduceOp op>
using Accumulator = decltype(zero_to_reduce_to<T, op>());

// A source's value as it goes into the reduction; `factor` is 1/divisor, of integers unused.
template <typename T, ReduceOp op>
KOLO_ELEMENT inline Accumulator<T, op> load(T value, Accumulator<T, op> factor) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return op == ReduceOp::average ? to_float(value) * factor : to_float(value);
  else if constexpr (op == ReduceOp::average && std::is_floating_point_v<T>)
    return value * factor;
  else
    return static_cast<Accumulator<T, op>>(value);
}

// What a reduction comes to, in the type of the result.
template <typename R, typename A>
KOLO_ELEMENT inline R store(A value) {
  if constexpr (std::is_same_v<R, Float16>)
    return to_float16(value);
  else if constexpr (std::is_same_v<R, BFloat16>)
    return to_bfloat16(value);
  else
    return static_cast<R>(value);
}

// place = value; the vectorizer takes no copies of structures.
template <typename T>
KOLO_ELEMENT inline void put(T& place, T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    place.bits = value.bits;
  else
    place = value;
}

template <typename T, ReduceOp op>
KOLO_ELEMENT inline Accumulator<T, op> combine(Accumulator<T, op> a, Accumulator<T, op> b) {
  if constexpr (op == ReduceOp::min || op == ReduceOp::max) {
    // Compared in the stored type where that is signed. A NaN wins: it must not vanish in a
    // reduction.
    using Compared = std::conditional_t<std::is_integral_v<T>, T, Accumulator<T, op>>;
    const auto x = static_cast<Compared>(a), y = static_cast<Compared>(b);
    if constexpr (op == ReduceOp::min)
      return (y < x || y != y) ? b : a;
    else
      return (x < y || y != y) ? b : a;
  } else if constexpr (op == ReduceOp::product) {
    return static_cast<Accumulator<T, op>>(a * b);
  } else {
    return static_cast<Accumulator<T, op>>(a + b);
  }
}

// An average of integers is still their sum.
template <typename T, ReduceOp op>
KOLO_ELEMENT inline Accumulator<T, op> finished(Accumulator<T, op> value, int divisor) {
  if constexpr (op == ReduceOp::average && std::is_integral_v<T>)
    return value / divisor;
  else
    return value;
}

template <typename T, ReduceOp op>
KOLO_ELEMENT inline Accumulator<T, op> factor_of(int divisor) {
  if constexpr (std::is_integral_v<T>)
    return 1;
  else
    return Accumulator<T, op>{1} / static_cast<Accumulator<T, op>>(divisor);
}

template <typename T, typename Function>
void with_op(ReduceOp op, const Function& function) {
  switch (op) {
    case ReduceOp::sum:
      return function.template operator()<T, ReduceOp::sum>();
    case ReduceOp::average:
      return function.template operator()<T, ReduceOp::average>();
    case ReduceOp::min:
      return function.template operator()<T, ReduceOp::min>();
    case ReduceOp::max:
      return function.template operator()<T, ReduceOp::max>();
    case ReduceOp::product:
      return function.template operator()<T, ReduceOp::product>();
  }
}

// Calls function.operator()<T, op>() with the type in which elements are stored. Of zeros and ones
// the maximum is the logical or, the minimum the logical and.
template <typename Function>
void with_reduction(DataType type, ReduceOp op, const Function& function) {
  if (type == DataType::boolean && op == ReduceOp::sum) op = ReduceOp::max;
  if (type == DataType::boolean && op == ReduceOp::product) op = ReduceOp::min;
  switch (type) {
    case DataType::float64:
      return with_op<double>(op, function);
    case DataType::float32:
      return with_op<float>(op, function);
    case DataType::float16:
      return with_op<Float16>(op, function);
    case DataType::bfloat16:
      return with_op<BFloat16>(op, function);
    case DataType::int64:
      return with_op<std::int64_t>(op, function);
    case DataType::int32:
      return with_op<std::int32_t>(op, function);
    case DataType::int16:
      return with_op<std::int16_t>(op, function);
    case DataType::int8:
      return with_op<std::int8_t>(op, function);
    case DataType::uint8:
    case DataType::boolean:
      return with_op<std::uint8_t>(op, function);
  }
}

}  // namespace kolo::reduction
