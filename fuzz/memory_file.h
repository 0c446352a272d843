#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo::fuzz {

// A file in memory, and the name it can be opened by.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes = {})
      : file_(memfd_create("kolo", MFD_CLOEXEC)) {
    write_all(file_.get(), bytes, "a file in memory");
  }
  [[nodiscard]] std::filesystem::path path() const {
    return fmt::format("/proc/self/fd/{}", file_.get());
  }
  // Replaces the content.
  void assign(std::span<const std::byte> bytes) {
    if (ftruncate(file_.get(), 0) != 0 || lseek(file_.get(), 0, SEEK_SET) != 0)
      throw Error(system_error_text("cannot empty a file in memory", errno));
    write_all(file_.get(), bytes, "a file in memory");
  }

 private:
  FileDescriptor file_;
};

// A folder with a link to a file in memory, for readers of folders; making one takes longer than
// reading, so one serves a whole run.
class MemoryFolder {
 public:
  explicit MemoryFolder(std::string_view name) {
    std::string pattern = std::filesystem::temp_directory_path() / "kolo-fuzz-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw Error("cannot make a temporary folder");
    path_ = pattern;
    std::filesystem::create_symlink(file_.path(), path_ / name);
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  ~MemoryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  void assign(std::span<const std::byte> bytes) { file_.assign(bytes); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  MemoryFile file_;
  std::filesystem::path path_;
};

}  // namespace kolo::fuzz
