#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/data/npy.h"

namespace kolo {

// How an array lies in its file.
struct ArrayLayout {
  std::string type;                  // as its numbers are called: "float32", "big-endian uint16"
  std::vector<std::int64_t> shape;   // empty: a single number
  std::vector<std::int64_t> chunk;   // empty: contiguous
  std::vector<std::string> filters;  // deflate, shuffle, ...
  bool is_fortran_order = false;     // the numbers of a row lie apart
};

// An array of numbers in a file, of NumPy's (.npy) or a dataset of HDF5, which is read row by row:
// rows are what the first axis counts. Const functions may be called by any number of threads at
// once. A file must not be cut shorter while it is open.
class ArrayFile {
 public:
  virtual ~ArrayFile() = default;

  // For messages: "FILE" or "DATASET of FILE".
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const ArrayLayout& layout() const { return layout_; }
  [[nodiscard]] bool is_whole() const { return type_.is_whole(); }
  // A single number is one row.
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::vector<std::int64_t> row_shape() const;
  [[nodiscard]] std::int64_t row_numbers() const { return row_numbers_; }

  // Rows first to first + count, in C order. InputError where the file can't be read any more, and
  // for a number that is finite in the file and beyond the range of what it is read as.
  void read(std::int64_t first, std::int64_t count, std::span<float> numbers) const;
  void read(std::int64_t first, std::int64_t count, std::span<double> numbers) const;
  void read(std::int64_t first, std::int64_t count, std::span<std::int64_t> numbers) const;

 protected:
  // `type`: of the bytes that read_rows() gives. InputError where the shape overflows 64 bits.
  ArrayFile(std::string name, ArrayLayout layout, const NumberType& type);
  // So many rows from `first` on, in C order.
  virtual void read_rows(std::int64_t first, std::int64_t count,
                         std::span<std::byte> bytes) const = 0;
  [[nodiscard]] std::size_t row_bytes() const { return row_bytes_; }

 private:
  template <typename Number>
  void convert_rows(std::int64_t first, std::int64_t count, std::span<Number> numbers) const;

  std::string name_;
  ArrayLayout layout_;
  NumberType type_;
  std::int64_t rows_ = 1, row_numbers_ = 1;
  std::size_t row_bytes_ = 0;
};

// InputError that names the file and what is wrong with it.
[[nodiscard]] std::shared_ptr<const ArrayFile> open_npy_array(const std::filesystem::path& file);
// Each of these files is a row, all of one shape and type. The files are looked at once; each is
// opened when it is read. InputError as above, and where files differ.
[[nodiscard]] std::shared_ptr<const ArrayFile> open_npy_files(
    const std::string& name, std::vector<std::filesystem::path> files);
// Null where the file has nothing of that name. InputError for what is no dataset of numbers, or
// has numbers that can't be read or were never written. One thread reads at a time.
[[nodiscard]] std::shared_ptr<const ArrayFile> open_hdf5_array(const std::filesystem::path& file,
                                                               const std::string& dataset);

// Whether a file has HDF5's signature, at its beginning or after a user block, as MATLAB's have.
// InputError for what is no regular file.
[[nodiscard]] bool is_hdf5_file(const std::filesystem::path& file);
// The names of all that is in an HDF5 file, but groups, in natural order: "inputs", "run/inputs".
// InputError for what can't be opened.
[[nodiscard]] std::vector<std::string> list_hdf5_arrays(const std::filesystem::path& file);

}  // namespace kolo
