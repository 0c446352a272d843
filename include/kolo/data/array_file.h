#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace kolo {

// Storage of a file's numbers.
struct NumberType {
  char kind = 'f';  // as NumPy's: 'f' floating-point, 'i' and 'u' whole, 'b' true or false
  std::int64_t bytes = 4;

  bool operator==(const NumberType&) const = default;
  [[nodiscard]] bool is_whole() const { return kind != 'f'; }
  // "float32", "uint16", "bool"
  [[nodiscard]] std::string name() const;
};

// The head of a NumPy array file (.npy, versions 1 to 3; source: NumPy's format specification,
// numpy/lib/format.py).
struct NpyHeader {
  NumberType type;
  std::vector<std::int64_t> shape;
  std::int64_t data_offset = 0;  // bytes from the file's start to the first number
};

// Tells whether a file begins with NumPy's magic string.
[[nodiscard]] bool is_npy(std::span<const std::byte> beginning);

// Reads the header and compares shape and type with the file's size. InputError names the file, the
// offset or key, what was expected and what was found.
[[nodiscard]] NpyHeader read_npy_header(const std::filesystem::path& file);

// A header of version 1.0 for little-endian float32 in C order; its size is a multiple of 64.
[[nodiscard]] std::string npy_header_bytes(std::span<const std::int64_t> shape);

struct FloatArray {
  std::string name;
  std::vector<std::int64_t> shape;
};

// Makes an HDF5 file of little-endian float32 arrays in C order. Their numbers are to be written
// without the library, each array's to its place, in bytes, of those returned.
[[nodiscard]] std::vector<std::int64_t> make_hdf5_arrays(const std::filesystem::path& file,
                                                         std::span<const FloatArray> arrays);

// Place, type and shape of an array in its file.
struct ArrayLayout {
  std::filesystem::path file;        // or a folder with a file for each row
  std::string type;                  // name of the numbers' type: "float32", "big-endian uint16"
  std::vector<std::int64_t> shape;   // empty: a single number
  std::vector<std::int64_t> chunk;   // empty: contiguous
  std::vector<std::string> filters;  // deflate, shuffle, ...
  std::int64_t stored_bytes = 0;
  bool is_mapped = false;  // the file is mapped into memory, where any number of threads read it
};

// "4, 128, 128, 128"
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

// Part of an array: its beginning and its length along each axis.
struct ArrayRegion {
  std::vector<std::int64_t> start, extent;
};

// Way in which numbers come out of a file.
enum class ArrayAccess {
  rows,    // by system calls or the HDF5 library; a file that became shorter is an InputError
  regions  // from the file mapped into memory where its layout allows that; the system ends a
           // process that reads beyond the end of a file that became shorter
};

// Array of numbers in a file: a .npy file or a dataset of HDF5. The first axis counts rows; a
// single number is one row. Const functions may be called by any number of threads at once. A file
// must not be cut shorter while it is open.
class ArrayFile {
 public:
  ArrayFile(const ArrayFile&) = delete;
  ArrayFile& operator=(const ArrayFile&) = delete;
  virtual ~ArrayFile() = default;

  // For messages: "FILE" or "DATASET of FILE".
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const ArrayLayout& layout() const { return layout_; }
  [[nodiscard]] bool is_whole() const { return type_.is_whole(); }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::vector<std::int64_t> row_shape() const;
  [[nodiscard]] std::int64_t row_numbers() const { return row_numbers_; }

  // Reads rows first to first + count, in C order. InputError if the file can't be read any more,
  // and for a finite number beyond the range of the type asked for.
  template <typename Number>  // float, double, std::int64_t
  void read(std::int64_t first, std::int64_t count, std::span<Number> numbers) const;

  // Reads a region inside the array, in C order. Returns the index of its first finite number
  // beyond float32's range, from which on not all are written.
  [[nodiscard]] std::optional<std::int64_t> read(const ArrayRegion& region,
                                                 std::span<float> numbers) const;
  // The first number of an array that lies in memory as float32 in C order; otherwise null.
  [[nodiscard]] virtual const float* values() const { return nullptr; }

 protected:
  // `type` is that of read_bytes(). Error if the shape overflows 64 bits.
  ArrayFile(std::string name, ArrayLayout layout, const NumberType& type);
  [[nodiscard]] const NumberType& type() const { return type_; }
  // Reads a region that is not empty, in C order.
  virtual void read_bytes(const ArrayRegion& region, std::span<std::byte> bytes) const = 0;

 private:
  [[nodiscard]] ArrayRegion region_of(std::int64_t first, std::int64_t count) const;
  template <typename Number>
  std::optional<std::int64_t> read_region(const ArrayRegion& region,
                                          std::span<Number> numbers) const;

  std::string name_;
  ArrayLayout layout_;
  NumberType type_;
  std::int64_t rows_ = 1, row_numbers_ = 1;
};

// Opens one .npy file. InputError that names the file and what is wrong with it.
[[nodiscard]] std::shared_ptr<const ArrayFile> open_npy_array(
    const std::filesystem::path& file, ArrayAccess access = ArrayAccess::rows);
// Opens files that are a row each, all of one shape and type. Headers are read now, numbers from
// files opened anew for each read. InputError as above, and if files differ.
[[nodiscard]] std::shared_ptr<const ArrayFile> open_npy_files(
    const std::filesystem::path& folder, const std::vector<std::filesystem::path>& files);
// Opens a dataset of an HDF5 file; unless it is mapped, one thread at a time reads it. InputError
// for a missing dataset, another object, types that are no numbers, links that lead out of the file
// or nowhere, and unless all numbers are in this file and can be unpacked: filters that the library
// lacks, external storage, virtual datasets, chunks never written, which HDF5 would give as zeros.
[[nodiscard]] std::shared_ptr<const ArrayFile> open_hdf5_array(
    const std::filesystem::path& file, const std::string& dataset,
    ArrayAccess access = ArrayAccess::rows);

// Looks for HDF5's signature, at the file's beginning or after a user block, as MATLAB's files
// have. InputError unless it is a regular file.
[[nodiscard]] bool is_hdf5_file(const std::filesystem::path& file);
// Looks for a name in an HDF5 file, which may have groups in it ("run/inputs").
[[nodiscard]] bool has_hdf5_array(const std::filesystem::path& file, const std::string& name);
// Names of all objects in an HDF5 file but groups, in natural order: "inputs", "run/inputs".
// InputError if it can't be opened.
[[nodiscard]] std::vector<std::string> list_hdf5_arrays(const std::filesystem::path& file);
// Attributes of an HDF5 file's root and of the datasets in it by name, "redshift" of the root,
// "Nbody.units" of a dataset: a single value or a flat array; for types other than numbers and text
// a name of the type. InputError unless it is HDF5.
[[nodiscard]] nlohmann::ordered_json read_hdf5_attributes(const std::filesystem::path& file);

}  // namespace kolo
