#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kolo {

// What the head of a NumPy array file says (.npy, versions 1 to 3; source: NumPy's format
// specification, numpy/lib/format.py). Only little-endian numbers in C order are read.
struct NpyHeader {
  std::string type = "<f4";  // as NumPy writes it: float32
  std::vector<std::int64_t> shape;
  std::int64_t data_offset = 0;  // bytes from the file's start to the first number
};

// Whether a file's first bytes are NumPy's magic string.
[[nodiscard]] bool is_npy(std::span<const std::byte> beginning);

// Reads the header and compares shape and type with the file's size. InputError names the file, the
// offset or key, what was expected and what was found. `other_types`: that are taken besides
// float32, for example "<f8" and "|u1".
[[nodiscard]] NpyHeader read_npy_header(const std::filesystem::path& file,
                                        std::span<const std::string_view> other_types = {});

// Of one number: the digit at the end of a type.
[[nodiscard]] std::int64_t npy_element_bytes(std::string_view type);

// A header of version 1.0 for little-endian float32 in C order; its size is a multiple of 64.
[[nodiscard]] std::string npy_header_bytes(std::span<const std::int64_t> shape);

}  // namespace kolo
