#include "data/boxes/number_conversion.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <utility>

#include "base/half.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// A number in memory's byte order, of any alignment.
template <typename Number, bool swaps>
Number load_number(const std::byte* from) {
  std::array<std::byte, sizeof(Number)> bytes{};
  std::memcpy(bytes.data(), from, bytes.size());
  if constexpr (swaps) std::ranges::reverse(bytes);
  return std::bit_cast<Number>(bytes);
}

inline float value_of(Float16 number) {
  return to_float(number);
}
template <typename Number>
Number value_of(Number number) {
  return number;
}

template <typename To, typename From>
bool is_beyond(From number) {
  if constexpr (std::same_as<To, float> && std::same_as<From, double>)
    return std::isfinite(number) && !std::isfinite(static_cast<float>(number));
  else if constexpr (std::integral<To> && std::integral<From>)
    return !std::in_range<To>(number);
  else if constexpr (std::integral<To>)
    return true;  // nobody asks for floating-point numbers as whole ones
  else
    return false;
}

template <typename From, bool swaps, typename To>
std::optional<std::size_t> convert_from(const std::byte* from, std::int64_t stride,
                                        std::span<To> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto number =
        value_of(load_number<From, swaps>(from + static_cast<std::int64_t>(i) * stride));
    if (is_beyond<To>(number)) return i;
    to[i] = static_cast<To>(number);
  }
  return std::nullopt;
}

template <typename From, typename To>
std::optional<std::size_t> convert_from(const NumberType& type, const std::byte* from,
                                        std::int64_t stride, std::span<To> to) {
  return type.is_big_endian ? convert_from<From, true>(from, stride, to)
                            : convert_from<From, false>(from, stride, to);
}

}  // namespace

template <typename To>
std::optional<std::size_t> convert_numbers(const NumberType& type, const std::byte* from,
                                           std::int64_t stride, std::span<To> to) {
  switch (type.kind) {
    case 'f':
      if (type.bytes == 2) return convert_from<Float16>(type, from, stride, to);
      if (type.bytes == 4) return convert_from<float>(type, from, stride, to);
      return convert_from<double>(type, from, stride, to);
    case 'i':
      if (type.bytes == 1) return convert_from<std::int8_t>(type, from, stride, to);
      if (type.bytes == 2) return convert_from<std::int16_t>(type, from, stride, to);
      if (type.bytes == 4) return convert_from<std::int32_t>(type, from, stride, to);
      return convert_from<std::int64_t>(type, from, stride, to);
    default:
      if (type.bytes == 1) return convert_from<std::uint8_t>(type, from, stride, to);
      if (type.bytes == 2) return convert_from<std::uint16_t>(type, from, stride, to);
      if (type.bytes == 4) return convert_from<std::uint32_t>(type, from, stride, to);
      return convert_from<std::uint64_t>(type, from, stride, to);
  }
}

template std::optional<std::size_t> convert_numbers(const NumberType&, const std::byte*,
                                                    std::int64_t, std::span<float>);
template std::optional<std::size_t> convert_numbers(const NumberType&, const std::byte*,
                                                    std::int64_t, std::span<double>);
template std::optional<std::size_t> convert_numbers(const NumberType&, const std::byte*,
                                                    std::int64_t, std::span<std::int64_t>);

}  // namespace kolo
