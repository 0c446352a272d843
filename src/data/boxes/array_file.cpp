#include "data/boxes/array_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "data/boxes/field_source.h"
#include "data/boxes/number_conversion.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

void read_at(int file, std::int64_t offset, std::span<std::byte> bytes, const std::string& name) {
  while (!bytes.empty()) {
    const auto count = ::pread(file, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw InputError(system_error_text(fmt::format("data: cannot read {}", name), errno));
    if (count == 0)
      throw InputError(fmt::format("data: {} became shorter while it was used", name));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

FileDescriptor open_array_file(const std::filesystem::path& file) {
  try {
    return open_regular_file(file);
  } catch (const Error& error) {
    throw InputError(fmt::format("data: {}", error.what()));
  }
}

// Copies rows first to first + count of an array that lies in Fortran order, in C order.
void copy_fortran_rows(const std::byte* numbers, std::span<const std::int64_t> shape,
                       std::int64_t bytes, std::int64_t first, std::int64_t count, std::byte* out) {
  std::vector<std::int64_t> lengths(shape.begin(), shape.end()), steps, place(shape.size(), 0);
  std::int64_t step = 1;
  for (const auto length : shape) {
    steps.push_back(step);
    step *= length;
  }
  lengths.front() = count;
  const auto last = shape.size() - 1;
  for (auto from = first;;) {
    for (std::int64_t i = 0; i < lengths[last]; ++i, out += bytes)
      std::memcpy(out, numbers + (from + i * steps[last]) * bytes, static_cast<std::size_t>(bytes));
    for (auto axis = last;;) {
      if (axis == 0) return;
      --axis;
      from += steps[axis];
      if (++place[axis] < lengths[axis]) break;
      from -= lengths[axis] * steps[axis];
      place[axis] = 0;
    }
  }
}

ArrayLayout npy_layout(const NpyHeader& header) {
  return {.type = header.type.name(),
          .shape = header.shape,
          .is_fortran_order = header.is_fortran_order};
}

class NpyArray final : public ArrayFile {
 public:
  NpyArray(const std::filesystem::path& file, const NpyHeader& header)
      : ArrayFile(file.string(), npy_layout(header), header.type),
        offset_(header.data_offset),
        file_(open_array_file(file)) {}

 private:
  void read_rows(std::int64_t first, std::int64_t /*count*/,
                 std::span<std::byte> bytes) const override {
    read_at(file_.get(), offset_ + first * static_cast<std::int64_t>(row_bytes()), bytes, name());
  }

  std::int64_t offset_;
  FileDescriptor file_;
};

// In Fortran order each number of a row lies elsewhere, so the file is mapped into memory.
class FortranNpyArray final : public ArrayFile {
 public:
  FortranNpyArray(const std::filesystem::path& file, const NpyHeader& header)
      : ArrayFile(file.string(), npy_layout(header), header.type),
        offset_(header.data_offset),
        number_bytes_(header.type.bytes),
        map_(file) {
    if (std::cmp_not_equal(map_.size() - offset_, static_cast<std::int64_t>(row_bytes()) * rows()))
      throw InputError(fmt::format("data: {} has changed while it was opened", file.string()));
  }

 private:
  void read_rows(std::int64_t first, std::int64_t count,
                 std::span<std::byte> bytes) const override {
    copy_fortran_rows(map_.data() + offset_, layout().shape, number_bytes_, first, count,
                      bytes.data());
  }

  std::int64_t offset_, number_bytes_;
  MappedFile map_;
};

// One of many files that are a row each.
struct RowFile {
  std::filesystem::path path;
  std::int64_t offset = 0;
  bool is_fortran_order = false;
};

class NpyFiles final : public ArrayFile {
 public:
  NpyFiles(const std::string& name, const NpyHeader& first, std::vector<RowFile> files)
      : ArrayFile(name, layout_of(first, files.size()), first.type),
        number_bytes_(first.type.bytes),
        files_(std::move(files)) {}

 private:
  static ArrayLayout layout_of(const NpyHeader& header, std::size_t files) {
    auto layout = npy_layout(header);
    layout.shape.insert(layout.shape.begin(), static_cast<std::int64_t>(files));
    layout.is_fortran_order = false;  // a file is read as a whole
    return layout;
  }
  void read_rows(std::int64_t first, std::int64_t count,
                 std::span<std::byte> bytes) const override {
    for (std::int64_t i = 0; i < count; ++i, bytes = bytes.subspan(row_bytes()))
      read_file(files_[static_cast<std::size_t>(first + i)], bytes.first(row_bytes()));
  }
  void read_file(const RowFile& row, std::span<std::byte> bytes) const {
    const auto file = open_array_file(row.path);
    read_at(file.get(), row.offset, bytes, row.path.string());
    const auto shape = row_shape();
    if (!row.is_fortran_order || shape.size() < 2) return;
    const std::vector<std::byte> numbers(bytes.begin(), bytes.end());
    copy_fortran_rows(numbers.data(), shape, number_bytes_, 0, shape.front(), bytes.data());
  }

  std::int64_t number_bytes_;
  std::vector<RowFile> files_;
};

std::string text_of(const std::vector<std::int64_t>& shape) {
  return shape_text(std::span<const std::int64_t>(shape));
}

}  // namespace

ArrayFile::ArrayFile(std::string name, ArrayLayout layout, const NumberType& type)
    : name_(std::move(name)), layout_(std::move(layout)), type_(type) {
  const auto& shape = layout_.shape;
  try {
    if (!shape.empty()) {
      rows_ = shape.front();
      row_numbers_ = checked_product(std::span<const std::int64_t>(shape).subspan(1));
    }
    row_bytes_ = narrow<std::size_t>(checked_multiply(row_numbers_, type_.bytes));
    (void)checked_multiply(narrow<std::int64_t>(row_bytes_), rows_);
  } catch (const Error&) {
    throw InputError(
        fmt::format("data: the shape ({}) of {} overflows 64 bits", text_of(shape), name_));
  }
}

std::vector<std::int64_t> ArrayFile::row_shape() const {
  const auto& shape = layout_.shape;
  return {shape.begin() + (shape.empty() ? 0 : 1), shape.end()};
}

template <typename Number>
void ArrayFile::convert_rows(std::int64_t first, std::int64_t count,
                             std::span<Number> numbers) const {
  std::vector<std::byte> bytes(checked_multiply(row_bytes_, narrow<std::size_t>(count)));
  if (bytes.empty()) return;
  read_rows(first, count, bytes);
  const auto beyond = convert_numbers(type_, bytes.data(), type_.bytes, numbers);
  if (!beyond) return;
  const auto place = static_cast<std::int64_t>(*beyond);
  const auto* const number = bytes.data() + place * type_.bytes;
  double value = 0;
  (void)convert_numbers(type_, number, type_.bytes, std::span(&value, 1));
  throw InputError(fmt::format(
      "data: {}: sample {} holds {}, which {}", name_, first + place / row_numbers_, value,
      std::is_floating_point_v<Number>
          ? "float32 can't represent (at most 3.4e38 in size), and networks compute in float32; "
            "bring the numbers to a smaller scale"
          : "is beyond the whole numbers of 64 bits with a sign"));
}

void ArrayFile::read(std::int64_t first, std::int64_t count, std::span<float> numbers) const {
  if (numbers.empty()) return;
  if (type_ == NumberType())
    read_rows(first, count, std::as_writable_bytes(numbers));
  else
    convert_rows(first, count, numbers);
}

void ArrayFile::read(std::int64_t first, std::int64_t count, std::span<double> numbers) const {
  convert_rows(first, count, numbers);
}

void ArrayFile::read(std::int64_t first, std::int64_t count,
                     std::span<std::int64_t> numbers) const {
  convert_rows(first, count, numbers);
}

std::shared_ptr<const ArrayFile> open_npy_array(const std::filesystem::path& file) {
  auto header = read_npy_header(file);
  // Along a single axis both orders are the same.
  if (std::ranges::count_if(header.shape, [](std::int64_t length) { return length > 1; }) < 2)
    header.is_fortran_order = false;
  if (!header.is_fortran_order) return std::make_shared<NpyArray>(file, header);
  return std::make_shared<FortranNpyArray>(file, header);
}

std::shared_ptr<const ArrayFile> open_npy_files(const std::string& name,
                                                std::vector<std::filesystem::path> files) {
  if (files.empty()) throw InputError(fmt::format("data: {} holds no .npy files", name));
  const auto first = read_npy_header(files.front());
  std::vector<RowFile> rows;
  for (auto& file : files) {
    const auto header = read_npy_header(file);
    if (header.shape != first.shape || header.type != first.type) {
      throw InputError(fmt::format(
          "data: {} holds ({}) numbers of type {}, but {} ({}) of {}; all samples must be alike",
          file.string(), text_of(header.shape), header.type.name(), files.front().string(),
          text_of(first.shape), first.type.name()));
    }
    rows.push_back({file, header.data_offset, header.is_fortran_order});
  }
  return std::make_shared<NpyFiles>(name, first, std::move(rows));
}

}  // namespace kolo
