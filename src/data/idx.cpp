#include "kolo/data/idx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/file_kind.h"

namespace kolo {

namespace {

// The content of a file, unpacked, from its beginning to its end.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `bytes` as far as the content goes; returns how many there were. InputError for damaged
  // compressed data.
  [[nodiscard]] virtual std::size_t read(std::span<std::byte> bytes) = 0;
  // No content can be longer than this (exact for plain files).
  [[nodiscard]] virtual std::int64_t most_bytes() const = 0;
  [[nodiscard]] virtual bool is_compressed() const = 0;
};

class PlainSource final : public ByteSource {
 public:
  PlainSource(FileDescriptor file, std::filesystem::path path, std::int64_t file_size)
      : file_(std::move(file)), path_(std::move(path)), file_size_(file_size) {}

  std::size_t read(std::span<std::byte> bytes) override {
    return read_up_to(file_.get(), bytes, path_);
  }
  std::int64_t most_bytes() const override { return file_size_; }
  bool is_compressed() const override { return false; }

 private:
  FileDescriptor file_;
  std::filesystem::path path_;
  std::int64_t file_size_;
};

// One or more gzip members, as RFC 1952 has it; after the last one may be zeros, as tapes and
// block devices leave them, and nothing else.
class GzipSource final : public ByteSource {
 public:
  GzipSource(FileDescriptor file, std::filesystem::path path, std::int64_t file_size)
      : file_(std::move(file)), path_(std::move(path)), file_size_(file_size) {
    constexpr int gzip_only = 16;
    if (inflateInit2(&stream_, MAX_WBITS + gzip_only) != Z_OK) {
      throw Error(fmt::format("data: cannot set up zlib to read {}", path_.string()));
    }
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override { inflateEnd(&stream_); }

  std::size_t read(std::span<std::byte> bytes) override {
    std::size_t done = 0;
    while (done < bytes.size() && !at_end_) done += unpack(bytes.subspan(done));
    return done;
  }
  std::int64_t most_bytes() const override {
    // Deflate packs at best 1032 to 1 (zlib's technical details).
    constexpr std::int64_t best_ratio = 1032;
    return file_size_ > std::numeric_limits<std::int64_t>::max() / best_ratio
               ? std::numeric_limits<std::int64_t>::max()
               : file_size_ * best_ratio;
  }
  bool is_compressed() const override { return true; }

 private:
  std::size_t unpack(std::span<std::byte> bytes) {
    if (stream_.avail_in == 0 && !refill()) {
      if (!between_members_) fail("the gzip data ends too early (truncated file)");
      at_end_ = true;
      return 0;
    }
    if (between_members_ && any_member_ && *stream_.next_in == 0) {
      pass_over_padding();
      return 0;
    }
    if (between_members_) start_member();
    const auto room = static_cast<uInt>(std::min<std::size_t>(bytes.size(), 1U << 30));
    stream_.next_out = reinterpret_cast<Bytef*>(bytes.data());
    stream_.avail_out = room;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      between_members_ = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail(fmt::format("corrupt gzip data ({})",
                       stream_.msg != nullptr ? stream_.msg : "zlib error"));
    }
    return room - stream_.avail_out;
  }

  void pass_over_padding() {
    do {
      for (; stream_.avail_in > 0; --stream_.avail_in, ++stream_.next_in)
        if (*stream_.next_in != 0) fail("trailing bytes after the gzip data");
    } while (refill());
    at_end_ = true;
  }

  void start_member() {
    if (any_member_ && *stream_.next_in != 0x1f) fail("trailing bytes after the gzip data");
    any_member_ = true;
    between_members_ = false;
    inflateReset(&stream_);
  }

  bool refill() {
    const auto count = read_up_to(file_.get(), std::as_writable_bytes(std::span(packed_)), path_);
    packed_read_ += static_cast<std::int64_t>(count);
    stream_.next_in = packed_.data();
    stream_.avail_in = static_cast<uInt>(count);
    return count > 0;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(
        fmt::format("data: cannot read {}: {} at offset {} of {}; fetch or make the file again",
                    path_.string(), what, packed_read_ - stream_.avail_in, file_size_));
  }

  FileDescriptor file_;
  std::filesystem::path path_;
  std::int64_t file_size_;
  std::array<Bytef, 65536> packed_{};
  std::int64_t packed_read_ = 0;
  z_stream stream_{};
  bool between_members_ = true;
  bool any_member_ = false;
  bool at_end_ = false;
};

std::unique_ptr<ByteSource> open(const std::filesystem::path& path) {
  FileDescriptor file = open_regular_file(path);
  const auto size = size_in_bytes(file, path);
  std::array<std::byte, 2> beginning{};
  const auto count = read_up_to(file.get(), beginning, path);
  if (::lseek(file.get(), 0, SEEK_SET) != 0) {
    throw Error(system_error_text(fmt::format("cannot rewind {}", path.string()), errno));
  }
  const bool gzip =
      count == 2 && beginning[0] == std::byte{0x1f} && beginning[1] == std::byte{0x8b};
  if (gzip) return std::make_unique<GzipSource>(std::move(file), path, size);
  return std::make_unique<PlainSource>(std::move(file), path, size);
}

// Opens a regular file, plain or gzip by its first two bytes. InputError when it can't be opened.
std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& path) {
  try {
    return open(path);
  } catch (const Error& error) {
    throw InputError(fmt::format("data: {}", error.what()));
  }
}

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

  IdxHeader read_header(const std::optional<IdxExpectation>& expected) {
    IdxHeader header;
    header.dimensions.resize(read_magic(expected, header.type));
    read_dimensions(header.dimensions);
    (void)payload_size(header);
    return header;
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
    fail(other_file_text(
        source_->is_compressed() ? FileContent() : content_of_file(path_),
        fmt::format(
            "the magic number at offset 0 is {}, expected two zero bytes, the type and the rank",
            found)));
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

IdxHeader read_idx_header(const std::filesystem::path& path,
                          const std::optional<IdxExpectation>& expected) {
  return IdxReader(path).read_header(expected);
}

}  // namespace kolo
