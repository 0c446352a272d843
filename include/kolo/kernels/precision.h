#pragma once

#include <array>
#include <cstdint>

#include "kolo/base/enum_names.h"

namespace kolo {

// Type in which forward and backward passes compute where LibTorch holds it safe (convolutions and
// products of matrices); sums, losses and parameters stay in float32.
enum class Precision : std::uint8_t { fp32, bf16, fp16 };

constexpr auto enum_names(Precision) {
  return std::to_array<EnumName<Precision>>(
      {{Precision::fp32, "fp32"}, {Precision::bf16, "bf16"}, {Precision::fp16, "fp16"}});
}

// Bytes of a value in that type.
constexpr std::int64_t value_bytes(Precision precision) {
  return precision == Precision::fp32 ? 4 : 2;
}

}  // namespace kolo
