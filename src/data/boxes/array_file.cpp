#include "kolo/data/array_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/half.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// A number in memory's byte order, of any alignment.
template <typename Number, bool swaps>
Number load_number(const std::byte* from) {
  std::array<std::byte, sizeof(Number)> bytes{};
  std::memcpy(bytes.data(), from, bytes.size());
  if constexpr (swaps) std::ranges::reverse(bytes);
  return std::bit_cast<Number>(bytes);
}

inline float value_of(Float16 number) {
  return to_float(number);
}
template <typename Number>
Number value_of(Number number) {
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

template <typename From, bool swaps, typename To>
std::optional<std::size_t> convert_from(const std::byte* from, std::span<To> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto number = value_of(load_number<From, swaps>(from + i * sizeof(From)));
    if (is_beyond<To>(number)) return i;
    to[i] = static_cast<To>(number);
  }
  return std::nullopt;
}

template <typename From, typename To>
std::optional<std::size_t> convert_from(const NumberType& type, const std::byte* from,
                                        std::span<To> to) {
  return type.is_big_endian ? convert_from<From, true>(from, to)
                            : convert_from<From, false>(from, to);
}

// Writes numbers of `type`, which lie side by side from `from` on, as float, double or
// std::int64_t. Returns the first one that is finite and beyond the range of these; it and those
// after it are not written.
template <typename To>
std::optional<std::size_t> convert_numbers(const NumberType& type, const std::byte* from,
                                           std::span<To> to) {
  switch (type.kind) {
    case 'f':
      if (type.bytes == 2) return convert_from<Float16>(type, from, to);
      if (type.bytes == 4) return convert_from<float>(type, from, to);
      return convert_from<double>(type, from, to);
    case 'i':
      if (type.bytes == 1) return convert_from<std::int8_t>(type, from, to);
      if (type.bytes == 2) return convert_from<std::int16_t>(type, from, to);
      if (type.bytes == 4) return convert_from<std::int32_t>(type, from, to);
      return convert_from<std::int64_t>(type, from, to);
    default:
      if (type.bytes == 1) return convert_from<std::uint8_t>(type, from, to);
      if (type.bytes == 2) return convert_from<std::uint16_t>(type, from, to);
      if (type.bytes == 4) return convert_from<std::uint32_t>(type, from, to);
      return convert_from<std::uint64_t>(type, from, to);
  }
}

}  // namespace

std::string ArrayLayout::type_text() const {
  return is_fortran_order ? type + " in Fortran order" : type;
}

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
void ArrayFile::read_rows(std::int64_t first, std::int64_t count, std::span<Number> numbers) const {
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

void ArrayFile::read(std::int64_t first, std::int64_t count, std::span<float> numbers) const {
  read_rows(first, count, numbers);
}

void ArrayFile::read(std::int64_t first, std::int64_t count, std::span<double> numbers) const {
  read_rows(first, count, numbers);
}

void ArrayFile::read(std::int64_t first, std::int64_t count,
                     std::span<std::int64_t> numbers) const {
  read_rows(first, count, numbers);
}

std::optional<std::int64_t> ArrayFile::read(const ArrayRegion& region,
                                            std::span<float> numbers) const {
  return read_region(region, numbers);
}

}  // namespace kolo
