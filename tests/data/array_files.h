#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <hdf5.h>

namespace kolo::testing {

// An array as NumPy writes it. `type`: as "<f4".
template <typename T>
std::string npy_array(const std::string& type, const std::vector<std::int64_t>& shape,
                      const std::vector<T>& numbers) {
  auto text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                          fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += {static_cast<char>(text.size() & 255), static_cast<char>(text.size() >> 8)};
  bytes += text;
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
  return bytes;
}

// The same with the type that the numbers have, in either order of bytes.
template <typename T>
std::string npy_array(const std::vector<std::int64_t>& shape, std::vector<T> numbers,
                      bool is_big_endian = false) {
  const char kind = std::floating_point<T> ? 'f' : std::signed_integral<T> ? 'i' : 'u';
  for (auto& number : numbers) {
    auto* const bytes = reinterpret_cast<char*>(&number);
    if (is_big_endian) std::reverse(bytes, bytes + sizeof(T));
  }
  return npy_array(fmt::format("{}{}{}", is_big_endian ? '>' : '<', kind, sizeof(T)), shape,
                   numbers);
}

// Dataset that a test writes into an HDF5 file.
struct Hdf5Field {
  std::string name;
  hid_t type = H5T_IEEE_F32LE;  // in the file
  std::vector<hsize_t> shape;
  const std::vector<float>* values = nullptr;
  const void* numbers = nullptr;  // of that type; neither: nothing is written
  std::vector<hsize_t> chunk = {};
  unsigned deflate = 0;                           // level; 0: none
  std::function<void(hid_t creation)> more = {};  // sets further properties
};

inline void write_hdf5_field(hid_t file, const Hdf5Field& field) {
  const auto rank = static_cast<int>(field.shape.size());
  const hid_t space = H5Screate_simple(rank, field.shape.data(), nullptr);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  if (!field.chunk.empty()) H5Pset_chunk(creation, rank, field.chunk.data());
  if (field.deflate > 0) H5Pset_deflate(creation, field.deflate);
  if (field.more) field.more(creation);
  const hid_t dataset =
      H5Dcreate2(file, field.name.c_str(), field.type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ASSERT_GE(dataset, 0) << field.name;
  const void* const from = field.values != nullptr ? field.values->data() : field.numbers;
  const hid_t type = field.values != nullptr ? H5T_NATIVE_FLOAT : field.type;
  if (from != nullptr) {
    ASSERT_GE(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, from), 0) << field.name;
  }
  H5Dclose(dataset);
  H5Pclose(creation);
  H5Sclose(space);
}

// Makes an HDF5 file, filled by `fill`.
inline void write_hdf5(const std::string& path, const std::function<void(hid_t file)>& fill,
                       hsize_t user_block = 0) {
  const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_userblock(creation, user_block);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, H5P_DEFAULT);
  fill(file);
  H5Fclose(file);
  H5Pclose(creation);
}

template <typename T>
hid_t hdf5_type() {
  if constexpr (std::floating_point<T>)
    return sizeof(T) == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
  else if constexpr (std::signed_integral<T>)
    return sizeof(T) == 1   ? H5T_NATIVE_INT8
           : sizeof(T) == 2 ? H5T_NATIVE_INT16
           : sizeof(T) == 4 ? H5T_NATIVE_INT32
                            : H5T_NATIVE_INT64;
  else
    return sizeof(T) == 1   ? H5T_NATIVE_UINT8
           : sizeof(T) == 2 ? H5T_NATIVE_UINT16
           : sizeof(T) == 4 ? H5T_NATIVE_UINT32
                            : H5T_NATIVE_UINT64;
}

inline hid_t open_or_make_hdf5(const std::filesystem::path& path) {
  return std::filesystem::exists(path)
             ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
             : H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
}

// Removes a dataset, if it is there. The file must not be open elsewhere.
inline void remove_hdf5_array(const std::filesystem::path& path, const std::string& name) {
  const hid_t file = open_or_make_hdf5(path);
  ASSERT_GE(file, 0) << path;
  if (H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0) H5Ldelete(file, name.c_str(), H5P_DEFAULT);
  H5Fclose(file);
}

// Puts a dataset into a file, in place of one of that name.
template <typename T>
void put_hdf5_array(const std::filesystem::path& path, const std::string& name,
                    const std::vector<std::int64_t>& shape, std::vector<T> numbers,
                    bool is_big_endian = false) {
  remove_hdf5_array(path, name);
  const hid_t file = open_or_make_hdf5(path), type = H5Tcopy(hdf5_type<T>());
  H5Tset_order(type, is_big_endian ? H5T_ORDER_BE : H5T_ORDER_LE);
  if (!numbers.empty())  // in memory of that order, too
    H5Tconvert(hdf5_type<T>(), type, numbers.size(), numbers.data(), nullptr, H5P_DEFAULT);
  write_hdf5_field(file, {.name = name,
                          .type = type,
                          .shape = {shape.begin(), shape.end()},
                          .numbers = numbers.empty() ? nullptr : numbers.data()});
  H5Tclose(type);
  H5Fclose(file);
}

}  // namespace kolo::testing
