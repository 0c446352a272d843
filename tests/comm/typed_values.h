#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/half.h"
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
    switch (type_) {
      case DataType::float64:
        return put(index, value);
      case DataType::float32:
        return put(index, static_cast<float>(value));
      case DataType::float16:
        return put(index, to_float16(static_cast<float>(value)));
      case DataType::bfloat16:
        return put(index, to_bfloat16(static_cast<float>(value)));
      case DataType::int64:
        return put(index, static_cast<std::int64_t>(value));
      case DataType::int32:
        return put(index, static_cast<std::int32_t>(value));
      case DataType::int16:
        return put(index, static_cast<std::int16_t>(value));
      case DataType::int8:
        return put(index, static_cast<std::int8_t>(value));
      case DataType::uint8:
      case DataType::boolean:
        return put(index, static_cast<std::uint8_t>(value));
    }
  }

  [[nodiscard]] double get(std::int64_t index) const {
    switch (type_) {
      case DataType::float64:
        return take<double>(index);
      case DataType::float32:
        return take<float>(index);
      case DataType::float16:
        return to_float(take<Float16>(index));
      case DataType::bfloat16:
        return to_float(take<BFloat16>(index));
      case DataType::int64:
        return static_cast<double>(take<std::int64_t>(index));
      case DataType::int32:
        return take<std::int32_t>(index);
      case DataType::int16:
        return take<std::int16_t>(index);
      case DataType::int8:
        return take<std::int8_t>(index);
      case DataType::uint8:
      case DataType::boolean:
        return take<std::uint8_t>(index);
    }
    return 0;
  }

 private:
  template <typename T>
  void put(std::int64_t index, T value) {
    std::memcpy(bytes_.data() + static_cast<std::size_t>(index) * sizeof(T), &value, sizeof(T));
  }
  template <typename T>
  [[nodiscard]] T take(std::int64_t index) const {
    T value;
    std::memcpy(&value, bytes_.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
    return value;
  }

  DataType type_;
  std::int64_t count_;
  std::vector<std::byte> bytes_;
};

}  // namespace kolo::testing
