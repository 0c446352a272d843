#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/base/error.h"

// IDX, the format of the MNIST files: two zero bytes, the element type, the number of dimensions,
// each dimension as a big-endian 32-bit number, then the elements, row-major and big-endian.
// Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database".
namespace kolo {

enum class IdxType : std::uint8_t {
  uint8 = 0x08,
  int8 = 0x09,
  int16 = 0x0B,
  int32 = 0x0C,
  float32 = 0x0D,
  float64 = 0x0E,
};

[[nodiscard]] std::string_view idx_type_name(IdxType type);
// Bytes of one element.
[[nodiscard]] std::int64_t idx_element_size(IdxType type);

template <typename T>
inline constexpr std::optional<IdxType> idx_type_of = std::nullopt;
template <>
inline constexpr std::optional<IdxType> idx_type_of<std::uint8_t> = IdxType::uint8;
template <>
inline constexpr std::optional<IdxType> idx_type_of<std::int8_t> = IdxType::int8;
template <>
inline constexpr std::optional<IdxType> idx_type_of<std::int16_t> = IdxType::int16;
template <>
inline constexpr std::optional<IdxType> idx_type_of<std::int32_t> = IdxType::int32;
template <>
inline constexpr std::optional<IdxType> idx_type_of<float> = IdxType::float32;
template <>
inline constexpr std::optional<IdxType> idx_type_of<double> = IdxType::float64;

struct IdxHeader {
  IdxType type = IdxType::uint8;
  std::vector<std::int64_t> dimensions;  // at least one, none of them zero
};

struct IdxArray {
  IdxHeader header;
  std::vector<std::byte> bytes;  // the elements, row-major, in this machine's byte order

  // The elements as numbers; Error when T is not the file's type.
  template <typename T>
  [[nodiscard]] std::span<const T> elements() const {
    if (idx_type_of<T> != header.type) {
      throw Error("data: IDX elements of type " + std::string(idx_type_name(header.type)) +
                  " were asked for as another type");
    }
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

// What a reader needs a file to be; anything else is rejected before the elements are read.
struct IdxExpectation {
  IdxType type = IdxType::uint8;
  std::size_t rank = 1;
  std::string_view content;  // for the message: "images"
};

// Reads a whole IDX file, plain or gzip (told by its content, not its name). Throws InputError that
// names the file, the offset or field, what was found and what was expected, for everything that is
// not exactly one whole IDX array: wrong or swapped magic number, unexpected type or rank, a
// dimension of zero, sizes that overflow, truncated or trailing data, corrupt gzip. Never allocates
// more than the file can hold, nor unpacks more than the header promises and one byte.
[[nodiscard]] IdxArray read_idx(const std::filesystem::path& path,
                                const std::optional<IdxExpectation>& expected = std::nullopt);

// The header alone, with all that it and the file's size tell: what a gzip file holds is seen when
// its elements are read.
[[nodiscard]] IdxHeader read_idx_header(
    const std::filesystem::path& path,
    const std::optional<IdxExpectation>& expected = std::nullopt);

}  // namespace kolo
