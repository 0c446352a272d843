#include "byte_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

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

// One or more gzip members, as RFC 1952 has it; bytes after the last one are an error.
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
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw Error(system_error_text(fmt::format("cannot inspect {}", path.string()), errno));
  }
  std::array<std::byte, 2> beginning{};
  const auto count = read_up_to(file.get(), beginning, path);
  if (::lseek(file.get(), 0, SEEK_SET) != 0) {
    throw Error(system_error_text(fmt::format("cannot rewind {}", path.string()), errno));
  }
  const bool gzip =
      count == 2 && beginning[0] == std::byte{0x1f} && beginning[1] == std::byte{0x8b};
  const auto size = narrow<std::int64_t>(status.st_size);
  if (gzip) return std::make_unique<GzipSource>(std::move(file), path, size);
  return std::make_unique<PlainSource>(std::move(file), path, size);
}

}  // namespace

std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& path) {
  try {
    return open(path);
  } catch (const Error& error) {
    throw InputError(fmt::format("data: {}", error.what()));
  }
}

}  // namespace kolo
