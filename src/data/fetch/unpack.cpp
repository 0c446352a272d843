#include "data/fetch/unpack.h"

#include <memory>
#include <vector>

#include <archive.h>
#include <archive_entry.h>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_bytes = std::int64_t{4} << 30;

class Reader {
 public:
  explicit Reader(const fs::path& archive)
      : path_(archive), archive_(archive_read_new(), &archive_read_free) {
    constexpr std::size_t block_bytes = 1 << 16;
    if (!archive_ || archive_read_support_filter_gzip(archive_.get()) != ARCHIVE_OK ||
        archive_read_support_format_tar(archive_.get()) != ARCHIVE_OK ||
        archive_read_open_filename(archive_.get(), archive.c_str(), block_bytes) != ARCHIVE_OK) {
      fail();
    }
  }

  // None at the end.
  archive_entry* next() {
    archive_entry* entry = nullptr;
    const int status = archive_read_next_header(archive_.get(), &entry);
    if (status == ARCHIVE_EOF) return nullptr;
    if (status != ARCHIVE_OK) fail();
    return entry;
  }

  void write_entry_to(const fs::path& file) {
    AtomicFile output(file);
    std::vector<std::byte> block(std::size_t{1} << 20);
    while (true) {
      const auto count = archive_read_data(archive_.get(), block.data(), block.size());
      if (count < 0) fail();
      if (count == 0) break;
      bytes_ += count;
      if (bytes_ > most_bytes) {
        throw Error(
            fmt::format("fetch: {} unpacks to more than {} bytes", path_.string(), most_bytes));
      }
      output.write(std::span(block).first(static_cast<std::size_t>(count)));
    }
    output.commit();
  }

 private:
  [[noreturn]] void fail() {
    const char* const reason = archive_ ? archive_error_string(archive_.get()) : nullptr;
    throw Error(fmt::format("fetch: cannot unpack {}: {}", path_.string(),
                            reason != nullptr ? reason : "libarchive failed"));
  }

  const fs::path& path_;
  std::unique_ptr<archive, decltype(&archive_read_free)> archive_;
  std::int64_t bytes_ = 0;
};

}  // namespace

void unpack(const fs::path& archive, const std::string& folder, const fs::path& target) {
  Reader reader(archive);
  while (archive_entry* const entry = reader.next()) {
    const char* const name = archive_entry_pathname(entry);
    const auto type = archive_entry_filetype(entry);
    if (type == AE_IFDIR) continue;
    const auto path = fs::path(name != nullptr ? name : "").lexically_normal();
    const bool is_link =
        archive_entry_hardlink(entry) != nullptr || archive_entry_symlink(entry) != nullptr;
    if (type != AE_IFREG || is_link || path.parent_path() != folder || !path.has_filename()) {
      throw Error(fmt::format("fetch: {} holds {}, expected only files in {}/", archive.string(),
                              path.string(), folder));
    }
    reader.write_entry_to(target / path.filename());
  }
}

}  // namespace kolo
