#include "kolo/data/mnist.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <zlib.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/file_kind.h"

namespace kolo {

namespace {

constexpr std::uint8_t byte_type = 0x08;
using Magic = std::array<std::uint8_t, 4>;

// Reader of one file.
class IdxReader {
 public:
  IdxReader(const std::filesystem::path& path, const IdxExpectation& expected) : path_(path) {
    const auto file = open_input_file(path, "data");
    file_size_ = size_in_bytes(file, path);
    const int copy = ::dup(file.get());
    file_.reset(copy < 0 ? nullptr : ::gzdopen(copy, "rb"));
    if (!file_)
      throw Error(system_error_text(fmt::format("data: cannot read {}", path.string()), errno));
    is_packed_ = file_size_ > 1 && ::gzdirect(file_.get()) == 0;
    dimensions_.resize(read_magic(expected));
    read_dimensions();
    check_size();
  }

  [[nodiscard]] const std::vector<std::int64_t>& dimensions() const { return dimensions_; }

  // Grows with the elements read: a small gzip file that promises much gets no more memory than it
  // fills.
  [[nodiscard]] std::vector<std::uint8_t> read_elements() {
    constexpr std::size_t step = std::size_t{64} << 20;
    const auto size = narrow<std::size_t>(size_);
    std::vector<std::uint8_t> bytes;
    if (!is_packed_) bytes.reserve(size);
    while (bytes.size() < size) {
      const auto done = bytes.size();
      bytes.resize(std::min(size, done + step));
      const auto part = std::span(bytes).subspan(done);
      const auto found = read(part);
      if (found < part.size()) {
        fail(fmt::format("truncated: the elements at offset {} are {} bytes, expected {}", offset_,
                         done + found, size));
      }
    }
    // One byte more: a gzip stream's checksum is compared only at its end, and a bomb is left after
    // that byte.
    std::array<std::uint8_t, 1> extra{};
    if (read(extra) != 0)
      fail(fmt::format("trailing data: the header implies {} bytes, there are more",
                       offset_ + size_));
    return bytes;
  }

 private:
  struct Close {
    void operator()(gzFile file) const { ::gzclose(file); }
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("data: cannot read {} as IDX{}: {}", path_.string(),
                                 is_packed_ ? " (gzip)" : "", what));
  }

  // Fills `bytes` as far as the content goes; returns how many there were.
  std::size_t read(std::span<std::uint8_t> bytes) {
    const auto count = ::gzread(file_.get(), bytes.data(), narrow<unsigned>(bytes.size()));
    int status = Z_OK;
    const std::string message = ::gzerror(file_.get(), &status);
    if (status == Z_BUF_ERROR) fail("truncated: the gzip data ends too early");
    if (count < 0 || status != Z_OK) {
      fail(fmt::format("corrupt gzip data ({}) at offset {} of {}; fetch or make the file again",
                       message, ::gzoffset(file_.get()), file_size_));
    }
    return static_cast<std::size_t>(count);
  }

  void read_exactly(std::span<std::uint8_t> bytes, std::string_view field) {
    const auto found = read(bytes);
    if (found < bytes.size()) {
      fail(fmt::format("truncated: the {} at offset {} is {} bytes, expected {}", field, offset_,
                       found, bytes.size()));
    }
    offset_ += static_cast<std::int64_t>(bytes.size());
  }

  // Returns the number of dimensions.
  std::size_t read_magic(const IdxExpectation& expected) {
    Magic magic{};
    read_exactly(magic, "magic number");
    check_zero_bytes(magic);
    if (magic[2] != byte_type) {
      fail(fmt::format("the element type at offset 2 is 0x{:02x}, expected 0x08: bytes", magic[2]));
    }
    if (magic[3] == 0) fail("the number of dimensions at offset 3 is 0, expected at least 1");
    if (expected.rank != 0 && expected.rank != magic[3]) {
      fail(fmt::format(
          "the magic number is 0000{:02x}{:02x} (rank {}), expected 0000{:02x}{:02x} "
          "(rank {}) for {}",
          magic[2], magic[3], magic[3], byte_type, expected.rank, expected.rank, expected.content));
    }
    return magic[3];
  }

  void check_zero_bytes(const Magic& magic) const {
    if (magic[0] == 0 && magic[1] == 0) return;
    fail(other_file_text(is_packed_ ? FileContent() : content_of_file(path_),
                         fmt::format("the magic number at offset 0 is {:02x}, expected two zero "
                                     "bytes, the type and the rank (IDX is big-endian)",
                                     fmt::join(magic, ""))));
  }

  void read_dimensions() {
    for (std::size_t i = 0; i < dimensions_.size(); ++i) {
      const auto offset = offset_;
      std::array<std::uint8_t, 4> word{};
      read_exactly(word, fmt::format("dimension {}", i));
      for (const auto byte : word) dimensions_[i] = dimensions_[i] << 8 | byte;
      if (dimensions_[i] == 0)
        fail(fmt::format("dimension {} at offset {} is 0, expected at least 1", i, offset));
    }
  }

  // Compares the dimensions with what the file can hold.
  void check_size() {
    const auto text = fmt::to_string(fmt::join(dimensions_, " x "));
    std::int64_t whole = 0;
    try {
      size_ = checked_product(std::span<const std::int64_t>(dimensions_));
      whole = checked_add(size_, offset_);
    } catch (const Error&) {
      fail(fmt::format("the dimensions {} overflow 64 bits", text));
    }
    // Deflate packs at best 1032 to 1 (zlib's technical details).
    constexpr std::int64_t best_ratio = 1032, most = std::numeric_limits<std::int64_t>::max();
    const auto room =
        is_packed_ ? std::min(file_size_, most / best_ratio) * best_ratio : file_size_;
    if (whole > room) {
      fail(fmt::format("truncated: the dimensions {} need {} bytes with the header, the file {} {}",
                       text, whole, is_packed_ ? "can unpack to at most" : "has", room));
    }
    if (!is_packed_ && whole < room)
      fail(fmt::format("trailing data: the header implies {} bytes, the file has {}", whole, room));
  }

  const std::filesystem::path& path_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::int64_t file_size_ = 0;
  bool is_packed_ = false;
  std::vector<std::int64_t> dimensions_;
  std::int64_t size_ = 0, offset_ = 0;  // bytes of the elements; read so far of the header
};

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, const IdxExpectation& expected) {
  IdxReader reader(path, expected);
  return {reader.dimensions(), reader.read_elements()};
}

std::vector<std::int64_t> read_idx_dimensions(const std::filesystem::path& path,
                                              const IdxExpectation& expected) {
  return IdxReader(path, expected).dimensions();
}

}  // namespace kolo
