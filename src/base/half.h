#pragma once

#include <cstdint>

#include "kolo/base/host_device.h"

namespace kolo {

// 16-bit floating-point patterns and their conversion to float32 and back, rounding to nearest,
// ties to even. (__builtin_bit_cast, because nvcc takes std::bit_cast for the host's alone.)

struct BFloat16 {
  std::uint16_t bits;
};

struct Float16 {
  std::uint16_t bits;
};

KOLO_HOST_DEVICE inline float to_float(BFloat16 value) {
  return __builtin_bit_cast(float, std::uint32_t{value.bits} << 16);
}

KOLO_HOST_DEVICE inline BFloat16 to_bfloat16(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  if (value != value)
    return {static_cast<std::uint16_t>(bits >> 16 | 0x40)};  // a NaN must stay one
  return {static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. The exponent is moved by a
// multiplication, which also handles subnormal numbers; infinities and NaNs are put right
// afterwards.
KOLO_HOST_DEVICE inline float to_float(Float16 value) {
  const std::uint32_t sign = std::uint32_t{value.bits} << 16 & 0x80000000U;
  const std::uint32_t magnitude = std::uint32_t{value.bits} << 13 & 0x0FFFE000U;
  std::uint32_t bits =
      __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) * 0x1p112F);
  if (magnitude >= 0x0F800000U) bits |= 0x7F800000U;
  return __builtin_bit_cast(float, bits | sign);
}

KOLO_HOST_DEVICE inline Float16 to_float16(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000U) {
    half = 0x7E00;  // NaN
  } else if (magnitude >= 0x47800000U) {
    half = 0x7C00;  // too large (or infinite): infinity
  } else if (magnitude < 0x38800000U) {
    // Subnormal: adding 0.5 leaves the fraction, rounded by the adder, in the low bits.
    half = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) + 0.5F) -
           0x3F000000U;
  } else {
    half = (magnitude - 0x38000000U + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

}  // namespace kolo
