#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kolo {

// How the numbers of a file are stored.
struct NumberType {
  char kind = 'f';  // as NumPy's: 'f' floating-point, 'i' and 'u' whole, 'b' true or false
  std::int64_t bytes = 4;
  bool is_big_endian = false;

  bool operator==(const NumberType&) const = default;
  [[nodiscard]] bool is_whole() const { return kind != 'f'; }
  // "float32", "big-endian uint16", "bool"
  [[nodiscard]] std::string name() const;
};

// The type that NumPy writes so: "<f4", ">u2", "|b1". None for what holds no numbers, and for
// complex ones and long doubles.
[[nodiscard]] std::optional<NumberType> number_type_of(std::string_view numpy);

// The head of a NumPy array file (.npy, versions 1 to 3; source: NumPy's format specification,
// numpy/lib/format.py).
struct NpyHeader {
  NumberType type;
  bool is_fortran_order = false;  // the first axis varies fastest
  std::vector<std::int64_t> shape;
  std::int64_t data_offset = 0;  // bytes from the file's start to the first number
};

// Whether a file's first bytes are NumPy's magic string.
[[nodiscard]] bool is_npy(std::span<const std::byte> beginning);

// Reads the header and compares shape and type with the file's size. InputError names the file, the
// offset or key, what was expected and what was found.
[[nodiscard]] NpyHeader read_npy_header(const std::filesystem::path& file);

// A header of version 1.0 for little-endian float32 in C order; its size is a multiple of 64.
[[nodiscard]] std::string npy_header_bytes(std::span<const std::int64_t> shape);

}  // namespace kolo
