#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "comm/shared_memory/reduce_kernels.h"
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

}  // namespace kolo::testing
