#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "kolo/comm/data_type.h"

namespace kolo {

inline constexpr int most_array_dimensions = 8;

// View of a host program's array: float64, float32, int64 or int32, up to eight dimensions, slowest
// first as in C (u[y][x] is {ny, nx}), any strides. So the inside of a field with halos is passed
// without a copy. Inputs, targets and extras are only read; outputs are written.
struct Array {
  void* data = nullptr;
  DataType type = DataType::float32;
  int dimensions = 0;
  std::array<std::int64_t, most_array_dimensions> shape{};
  std::array<std::int64_t, most_array_dimensions> stride{};  // in elements

  Array() = default;
  // Dense (the last dimension is contiguous) unless strides are given. InputError for more than
  // eight dimensions, or another number of strides.
  Array(void* values, DataType element, std::span<const std::int64_t> lengths,
        std::span<const std::int64_t> strides = {});
  template <typename T>
  Array(T* values, std::initializer_list<std::int64_t> lengths,
        std::initializer_list<std::int64_t> strides = {})
      : Array(const_cast<std::remove_const_t<T>*>(values), data_type_of<T>(),
              std::span(lengths.begin(), lengths.size()),
              std::span(strides.begin(), strides.size())) {}

  [[nodiscard]] std::span<const std::int64_t> lengths() const {
    return {shape.data(), static_cast<std::size_t>(dimensions)};
  }
  [[nodiscard]] std::int64_t count() const;
};

}  // namespace kolo
