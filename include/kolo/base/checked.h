#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"

// Arithmetic on sizes that come from files, users or other ranks. Everything throws kolo::Error
// instead of wrapping round.
namespace kolo {

template <std::integral T>
[[nodiscard]] T checked_multiply(T a, T b) {
  T product{};
  if (__builtin_mul_overflow(a, b, &product))
    throw Error(fmt::format("size overflow: {} x {}", a, b));
  return product;
}

template <std::integral T>
[[nodiscard]] T checked_add(T a, T b) {
  T sum{};
  if (__builtin_add_overflow(a, b, &sum)) throw Error(fmt::format("size overflow: {} + {}", a, b));
  return sum;
}

// The product of all dimensions; 1 for none.
template <std::integral T>
[[nodiscard]] T checked_product(std::span<const T> dimensions) {
  T product = 1;
  for (const T dimension : dimensions) product = checked_multiply(product, dimension);
  return product;
}

// The quotient of any number and a positive divisor, rounded up.
template <std::integral Number, std::integral Divisor>
[[nodiscard]] constexpr auto divide_up(Number number, Divisor divisor) {
  return number / divisor + (number % divisor > 0 ? 1 : 0);
}

// A conversion between integer types that keeps the value or throws.
template <std::integral To, std::integral From>
[[nodiscard]] To narrow(From value) {
  if (!std::in_range<To>(value)) throw Error(fmt::format("value {} does not fit its type", value));
  return static_cast<To>(value);
}

}  // namespace kolo
