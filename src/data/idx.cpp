#include "kolo/data/idx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "byte_source.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

constexpr std::array all_types = {IdxType::uint8, IdxType::int8,    IdxType::int16,
                                  IdxType::int32, IdxType::float32, IdxType::float64};
using Magic = std::array<std::uint8_t, 4>;

// Reads one file; holds what its error messages need.
class IdxReader {
 public:
  explicit IdxReader(const std::filesystem::path& path)
      : path_(path), source_(open_byte_source(path)) {}

  IdxArray read(const std::optional<IdxExpectation>& expected) {
    IdxArray array;
    array.header.dimensions.resize(read_magic(expected, array.header.type));
    read_dimensions(array.header.dimensions);
    read_elements(array);
    return array;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("data: cannot read {} as IDX{}: {}", path_.string(),
                                 source_->is_compressed() ? " (gzip)" : "", what));
  }

  void read_exactly(std::span<std::byte> bytes, std::string_view field) {
    const auto found = source_->read(bytes);
    if (found < bytes.size()) {
      fail(fmt::format("truncated: the {} at offset {} is {} bytes, expected {}", field, offset_,
                       found, bytes.size()));
    }
    offset_ += static_cast<std::int64_t>(bytes.size());
  }

  // Returns the number of dimensions.
  std::size_t read_magic(const std::optional<IdxExpectation>& expected, IdxType& type) {
    Magic magic{};
    read_exactly(std::as_writable_bytes(std::span(magic)), "magic number");
    const auto found = std::find_if(all_types.begin(), all_types.end(), [&](IdxType candidate) {
      return magic[2] == static_cast<std::uint8_t>(candidate);
    });
    check_zero_bytes(magic);
    if (found == all_types.end()) {
      fail(fmt::format(
          "the element type at offset 2 is 0x{:02x}, expected one of 0x08 0x09 0x0b 0x0c 0x0d 0x0e",
          magic[2]));
    }
    if (magic[3] == 0) fail("the number of dimensions at offset 3 is 0, expected at least 1");
    type = *found;
    if (expected && (expected->type != type || expected->rank != magic[3])) {
      fail(
          fmt::format("the magic number is 0000{:02x}{:02x} ({}, rank {}), expected "
                      "0000{:02x}{:02x} ({}, rank {}) "
                      "for {}",
                      magic[2], magic[3], idx_type_name(type), magic[3],
                      static_cast<std::uint8_t>(expected->type), expected->rank,
                      idx_type_name(expected->type), expected->rank, expected->content));
    }
    return magic[3];
  }

  void check_zero_bytes(const Magic& magic) const {
    if (magic[0] == 0 && magic[1] == 0) return;
    const bool swapped =
        magic[3] == 0 && magic[2] == 0 && magic[0] != 0 && magic[1] >= 0x08 && magic[1] <= 0x0E;
    const auto found = fmt::format("{:02x}", fmt::join(magic, ""));
    if (swapped) {
      fail(fmt::format(
          "the magic number is byte-swapped: found {}, expected {:02x}{:02x}{:02x}{:02x}; IDX is "
          "big-endian, write the file again in that order",
          found, magic[3], magic[2], magic[1], magic[0]));
    }
    fail(fmt::format(
        "the magic number at offset 0 is {}, expected two zero bytes, the type and the rank",
        found));
  }

  void read_dimensions(std::span<std::int64_t> dimensions) {
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      const auto offset = offset_;
      std::array<std::uint8_t, 4> word{};
      read_exactly(std::as_writable_bytes(std::span(word)), fmt::format("dimension {}", i));
      for (const auto byte : word) dimensions[i] = dimensions[i] << 8 | byte;
      if (dimensions[i] == 0) {
        fail(fmt::format("dimension {} at offset {} is 0, expected at least 1", i, offset));
      }
    }
  }

  // Bytes of all elements, known to fit this file.
  std::int64_t payload_size(const IdxHeader& header) const {
    std::int64_t size = 0, whole = 0;
    try {
      size = checked_multiply(checked_product(std::span<const std::int64_t>(header.dimensions)),
                              idx_element_size(header.type));
      whole = checked_add(size, offset_);
    } catch (const Error&) {
      fail(fmt::format("the dimensions {} of {} overflow 64 bits",
                       fmt::join(header.dimensions, " x "), idx_type_name(header.type)));
    }
    const auto most = source_->most_bytes();
    if (whole > most) {
      fail(fmt::format(
          "truncated: the dimensions {} of {} need {} bytes with the header, the file {} {}",
          fmt::join(header.dimensions, " x "), idx_type_name(header.type), whole,
          source_->is_compressed() ? "can unpack to at most" : "has", most));
    }
    if (!source_->is_compressed() && whole < most) {
      fail(fmt::format("trailing data: the header implies {} bytes, the file has {}", whole, most));
    }
    return size;
  }

  // Grows with what there is: a small gzip file that promises much gets no more memory than it
  // fills.
  void read_payload(std::size_t size, std::vector<std::byte>& bytes) {
    constexpr std::size_t step = std::size_t{64} << 20;
    if (!source_->is_compressed()) bytes.reserve(size);
    while (bytes.size() < size) {
      const auto done = bytes.size();
      bytes.resize(std::min(size, done + step));
      const auto part = std::span(bytes).subspan(done);
      const auto found = source_->read(part);
      if (found < part.size()) {
        fail(fmt::format("truncated: the elements at offset {} are {} bytes, expected {}", offset_,
                         done + found, size));
      }
    }
    offset_ += static_cast<std::int64_t>(size);
  }

  void read_elements(IdxArray& array) {
    read_payload(narrow<std::size_t>(payload_size(array.header)), array.bytes);
    // One byte more: a gzip stream's checksum is compared only at its end, and a bomb is left after
    // that byte.
    std::array<std::byte, 1> extra{};
    if (source_->read(extra) != 0) {
      fail(fmt::format("trailing data: the header implies {} bytes, there are more", offset_));
    }
    if constexpr (std::endian::native == std::endian::little) {
      const auto size = idx_element_size(array.header.type);
      if (size == 1) return;
      for (auto element = array.bytes.begin(); element != array.bytes.end(); element += size) {
        std::reverse(element, element + size);
      }
    }
  }

  const std::filesystem::path& path_;
  std::unique_ptr<ByteSource> source_;
  std::int64_t offset_ = 0;
};

}  // namespace

std::string_view idx_type_name(IdxType type) {
  switch (type) {
    case IdxType::uint8:
      return "uint8";
    case IdxType::int8:
      return "int8";
    case IdxType::int16:
      return "int16";
    case IdxType::int32:
      return "int32";
    case IdxType::float32:
      return "float32";
    case IdxType::float64:
      return "float64";
  }
  return "unknown";
}

std::int64_t idx_element_size(IdxType type) {
  switch (type) {
    case IdxType::uint8:
    case IdxType::int8:
      return 1;
    case IdxType::int16:
      return 2;
    case IdxType::int32:
    case IdxType::float32:
      return 4;
    case IdxType::float64:
      return 8;
  }
  throw Error("data: unknown IDX element type");
}

IdxArray read_idx(const std::filesystem::path& path,
                  const std::optional<IdxExpectation>& expected) {
  return IdxReader(path).read(expected);
}

}  // namespace kolo
