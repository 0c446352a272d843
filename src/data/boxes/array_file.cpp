#include "kolo/data/array_file.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/half.h"
#include "data/boxes/file_arrays.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// A number of any alignment, of 16 bits as a float.
template <typename Number>
auto load_number(const std::byte* from) {
  Number number;
  std::memcpy(&number, from, sizeof(number));
  if constexpr (std::same_as<Number, Float16>)
    return to_float(number);
  else
    return number;
}

template <typename To, typename From>
bool is_beyond(From number) {
  if constexpr (std::same_as<To, float> && std::same_as<From, double>)
    return std::isfinite(number) && !std::isfinite(static_cast<float>(number));
  else if constexpr (std::integral<To> && std::integral<From>)
    return !std::in_range<To>(number);
  else if constexpr (std::integral<To>)
    return true;  // nobody asks for floating-point numbers as whole ones
  else
    return false;
}

template <typename From, typename To>
std::optional<std::size_t> convert_from(const std::byte* from, std::span<To> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto number = load_number<From>(from + i * sizeof(From));
    if (is_beyond<To>(number)) return i;
    to[i] = static_cast<To>(number);
  }
  return std::nullopt;
}

// Writes numbers of `type`, which lie side by side from `from` on, as float, double or
// std::int64_t. Returns the first one that is finite and beyond the range of these; it and those
// after it are not written.
template <typename To>
std::optional<std::size_t> convert_numbers(const NumberType& type, const std::byte* from,
                                           std::span<To> to) {
  switch (type.kind) {
    case 'f':
      if (type.bytes == 2) return convert_from<Float16>(from, to);
      if (type.bytes == 4) return convert_from<float>(from, to);
      return convert_from<double>(from, to);
    case 'i':
      if (type.bytes == 1) return convert_from<std::int8_t>(from, to);
      if (type.bytes == 2) return convert_from<std::int16_t>(from, to);
      if (type.bytes == 4) return convert_from<std::int32_t>(from, to);
      return convert_from<std::int64_t>(from, to);
    default:
      if (type.bytes == 1) return convert_from<std::uint8_t>(from, to);
      if (type.bytes == 2) return convert_from<std::uint16_t>(from, to);
      if (type.bytes == 4) return convert_from<std::uint32_t>(from, to);
      return convert_from<std::uint64_t>(from, to);
  }
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::to_string(fmt::join(shape, ", "));
}

ArrayFile::ArrayFile(std::string name, ArrayLayout layout, const NumberType& type)
    : name_(std::move(name)), layout_(std::move(layout)), type_(type) {
  const std::span<const std::int64_t> shape(layout_.shape);
  if (shape.empty()) return;
  rows_ = shape.front();
  row_numbers_ = checked_product(shape.subspan(1));
  (void)checked_multiply(checked_multiply(row_numbers_, type_.bytes), rows_);
}

std::vector<std::int64_t> ArrayFile::row_shape() const {
  const auto& shape = layout_.shape;
  return {shape.begin() + (shape.empty() ? 0 : 1), shape.end()};
}

ArrayRegion ArrayFile::region_of(std::int64_t first, std::int64_t count) const {
  ArrayRegion region{std::vector<std::int64_t>(layout_.shape.size()), layout_.shape};
  if (!region.start.empty()) {
    region.start.front() = first;
    region.extent.front() = count;
  }
  return region;
}

// Mapped numbers are converted some at a time, while they are in the caches; the HDF5 library would
// unpack chunks again for each part.
template <typename Number>
std::optional<std::int64_t> ArrayFile::read_region(const ArrayRegion& region,
                                                   std::span<Number> numbers) const {
  if (numbers.empty()) return std::nullopt;
  if (std::same_as<Number, float> && type_ == NumberType()) {
    read_bytes(region, std::as_writable_bytes(numbers));
    return std::nullopt;
  }
  constexpr std::int64_t most_bytes = 1 << 16;
  const auto rows = region.extent.empty() ? 1 : region.extent.front();
  const auto row = std::ssize(numbers) / rows;
  const auto step = layout_.is_mapped
                        ? std::clamp<std::int64_t>(most_bytes / (row * type_.bytes), 1, rows)
                        : rows;
  std::vector<std::byte> bytes(static_cast<std::size_t>(step * row * type_.bytes));
  auto part = region;
  for (std::int64_t first = 0; first < rows; first += step) {
    const auto count = std::min(step, rows - first);
    if (!region.extent.empty()) {
      part.start.front() = region.start.front() + first;
      part.extent.front() = count;
    }
    const auto out = numbers.subspan(static_cast<std::size_t>(first * row),
                                     static_cast<std::size_t>(count * row));
    read_bytes(part, std::span(bytes).first(out.size() * static_cast<std::size_t>(type_.bytes)));
    if (const auto beyond = convert_numbers(type_, bytes.data(), out))
      return first * row + static_cast<std::int64_t>(*beyond);
  }
  return std::nullopt;
}

template <typename Number>
void ArrayFile::read(std::int64_t first, std::int64_t count, std::span<Number> numbers) const {
  const auto beyond = read_region(region_of(first, count), numbers);
  if (!beyond) return;
  const auto sample = first + *beyond / row_numbers_;
  std::vector<double> row(static_cast<std::size_t>(row_numbers_));
  (void)read_region(region_of(sample, 1), std::span(row));
  throw InputError(fmt::format(
      "data: {}: sample {} holds {}, which {}", name_, sample,
      row[static_cast<std::size_t>(*beyond % row_numbers_)],
      std::is_floating_point_v<Number>
          ? "float32 can't represent (at most 3.4e38 in size), and networks compute in float32; "
            "bring the numbers to a smaller scale"
          : "is beyond the whole numbers of 64 bits with a sign"));
}

template void ArrayFile::read(std::int64_t, std::int64_t, std::span<float>) const;
template void ArrayFile::read(std::int64_t, std::int64_t, std::span<double>) const;
template void ArrayFile::read(std::int64_t, std::int64_t, std::span<std::int64_t>) const;

std::optional<std::int64_t> ArrayFile::read(const ArrayRegion& region,
                                            std::span<float> numbers) const {
  return read_region(region, numbers);
}

namespace {

ArrayLayout npy_layout(const std::filesystem::path& file, const NpyHeader& header,
                       ArrayAccess access) {
  return {.file = file,
          .type = header.type.name(),
          .shape = header.shape,
          .stored_bytes =
              checked_product(std::span<const std::int64_t>(header.shape)) * header.type.bytes,
          .is_mapped = access == ArrayAccess::regions};
}

// One of many files that are a row each.
struct NpyRow {
  std::filesystem::path file;
  std::int64_t offset = 0;
};

class NpyFiles final : public ArrayFile {
 public:
  NpyFiles(const std::filesystem::path& folder, NpyHeader first, std::vector<NpyRow> files)
      : ArrayFile(folder.string(), layout_of(folder, first, files.size()), first.type),
        header_(std::move(first)),
        files_(std::move(files)) {}

 private:
  static ArrayLayout layout_of(const std::filesystem::path& folder, const NpyHeader& first,
                               std::size_t files) {
    ArrayLayout layout{.file = folder, .type = first.type.name(), .shape = first.shape};
    layout.shape.insert(layout.shape.begin(), static_cast<std::int64_t>(files));
    return layout;
  }
  void read_bytes(const ArrayRegion& region, std::span<std::byte> bytes) const override {
    const auto row_bytes = bytes.size() / static_cast<std::size_t>(region.extent.front());
    const ArrayRegion row{{region.start.begin() + 1, region.start.end()},
                          {region.extent.begin() + 1, region.extent.end()}};
    for (std::int64_t i = 0; i < region.extent.front(); ++i, bytes = bytes.subspan(row_bytes)) {
      const auto& [file, offset] = files_[static_cast<std::size_t>(region.start.front() + i)];
      PlainArray(file.string(), npy_layout(file, header_, ArrayAccess::rows), type(), offset)
          .read_bytes(row, bytes.first(row_bytes));
    }
  }

  NpyHeader header_;  // of all, but for their offsets
  std::vector<NpyRow> files_;
};

}  // namespace

std::shared_ptr<const ArrayFile> open_npy_array(const std::filesystem::path& file,
                                                ArrayAccess access) {
  const auto header = read_npy_header(file);
  return std::make_shared<PlainArray>(file.string(), npy_layout(file, header, access), header.type,
                                      header.data_offset);
}

std::shared_ptr<const ArrayFile> open_npy_files(const std::filesystem::path& folder,
                                                const std::vector<std::filesystem::path>& files) {
  if (files.empty()) throw InputError(fmt::format("data: {} holds no .npy files", folder.string()));
  auto first = read_npy_header(files.front());
  std::vector<NpyRow> rows;
  for (const auto& file : files) {
    const auto header = read_npy_header(file);
    if (header.shape != first.shape || header.type != first.type) {
      throw InputError(fmt::format(
          "data: {} holds ({}) numbers of type {}, but {} ({}) of {}; all samples must be alike",
          file.string(), shape_text(header.shape), header.type.name(), files.front().string(),
          shape_text(first.shape), first.type.name()));
    }
    rows.push_back({file, header.data_offset});
  }
  return std::make_shared<NpyFiles>(folder, std::move(first), std::move(rows));
}

}  // namespace kolo
