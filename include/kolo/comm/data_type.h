#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace kolo {

// Element types of collectives. float16 and bfloat16 are reduced in float32, whatever the
// transport, and rounded once, at the end: sums of a node's ranks go to other nodes as float32.
// boolean is one byte that holds 0 or 1.
enum class DataType : std::uint8_t {
  float64,
  float32,
  float16,
  bfloat16,
  int64,
  int32,
  int16,
  int8,
  uint8,
  boolean
};

inline constexpr DataType all_data_types[] = {
    DataType::float64, DataType::float32, DataType::float16, DataType::bfloat16, DataType::int64,
    DataType::int32,   DataType::int16,   DataType::int8,    DataType::uint8,    DataType::boolean};

// Bytes an element.
[[nodiscard]] constexpr std::size_t size_of(DataType type) {
  constexpr std::size_t sizes[] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1};
  return sizes[static_cast<std::size_t>(type)];
}

[[nodiscard]] constexpr std::string_view name_of(DataType type) {
  constexpr std::string_view names[] = {"float64", "float32", "float16", "bfloat16", "int64",
                                        "int32",   "int16",   "int8",    "uint8",    "bool"};
  return names[static_cast<std::size_t>(type)];
}

// Operation of an all-reduce or reduce-scatter, element by element, in the order of ranks.
// - sum: integers wrap round; of booleans it is the logical or.
// - average: the sum of the values times 1/size, so that it doesn't overflow, unless they are all
//   within a relative size * 2^-24 (float32; 2^-53 for float64) of the type's largest value;
//   integers are added up without wrapping round, then divided, rounding towards zero; not for
//   booleans.
// - min, max: of booleans the logical and, or.
// - product: integers wrap round; of booleans the logical and.
enum class ReduceOp : std::uint8_t { sum, average, min, max, product };

[[nodiscard]] constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view names[] = {"sum", "average", "min", "max", "product"};
  return names[static_cast<std::size_t>(op)];
}

// Memory of a buffer's elements: the processor's, or a device's.
enum class MemoryKind : std::uint8_t { host, device };

[[nodiscard]] constexpr std::string_view name_of(MemoryKind kind) {
  return kind == MemoryKind::host ? "host" : "device";
}

template <typename T>
[[nodiscard]] constexpr DataType data_type_of() {
  using V = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<V, double>)
    return DataType::float64;
  else if constexpr (std::is_same_v<V, float>)
    return DataType::float32;
  else if constexpr (std::is_same_v<V, bool>)
    return DataType::boolean;
  else {
    static_assert(std::is_integral_v<V> && (std::is_signed_v<V> || sizeof(V) == 1),
                  "kolo has no element type for this");
    if constexpr (sizeof(V) == 8)
      return DataType::int64;
    else if constexpr (sizeof(V) == 4)
      return DataType::int32;
    else if constexpr (sizeof(V) == 2)
      return DataType::int16;
    else if constexpr (std::is_signed_v<V>)
      return DataType::int8;
    else
      return DataType::uint8;
  }
}

// A queue of work on a device, in the runtime's own type (for CUDA a cudaStream_t); null: the
// device's default stream.
using DeviceStream = void*;

// Elements of a buffer.
struct BufferElements {
  std::int64_t count = 0;
  DataType type = DataType::uint8;
  MemoryKind memory = MemoryKind::host;
  // Stream of a device whose work so far makes the values, and whose later work sees a collective's
  // result, once that has been waited for (Work::wait()).
  DeviceStream stream = nullptr;

  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(count) * size_of(type);
  }
};

// Contiguous memory that a collective writes (or reads and writes). It does not own the memory.
struct Buffer : BufferElements {
  void* data = nullptr;

  Buffer() = default;
  Buffer(void* values, std::int64_t elements, DataType element_type)
      : BufferElements{elements, element_type}, data(values) {}
  [[nodiscard]] static Buffer on_device(void* values, std::int64_t elements, DataType element_type,
                                        DeviceStream of) {
    Buffer buffer(values, elements, element_type);
    buffer.memory = MemoryKind::device;
    buffer.stream = of;
    return buffer;
  }
  template <typename T, std::size_t extent>
  requires(!std::is_const_v<T>)
      Buffer(std::span<T, extent> values)  // NOLINT: a span is meant to pass for a buffer
      : Buffer(values.data(), static_cast<std::int64_t>(values.size()), data_type_of<T>()) {}
};

// Contiguous memory that a collective only reads.
struct ConstBuffer : BufferElements {
  const void* data = nullptr;

  ConstBuffer() = default;
  ConstBuffer(const void* values, std::int64_t elements, DataType element_type)
      : BufferElements{elements, element_type}, data(values) {}
  ConstBuffer(const Buffer& buffer)  // NOLINT: every buffer can be read
      : BufferElements(buffer), data(buffer.data) {}
  template <typename T, std::size_t extent>
  ConstBuffer(std::span<T, extent> values)  // NOLINT
      : ConstBuffer(values.data(), static_cast<std::int64_t>(values.size()), data_type_of<T>()) {}
};

}  // namespace kolo
