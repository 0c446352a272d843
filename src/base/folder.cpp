#include "kolo/base/folder.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view verb, const fs::path& path, const std::error_code& error) {
  throw Error(fmt::format("folder: cannot {} {}: {}", verb, path.string(), error.message()));
}

// "data/" is the folder "data".
fs::path without_slash(const fs::path& path) {
  std::error_code error;
  const auto whole = fs::absolute(path, error).lexically_normal();
  if (error) fail("find", path, error);
  return whole.has_filename() ? whole : whole.parent_path();
}

void check_existing(const fs::path& path, std::span<const std::string_view> replaceable) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return;
  if (!fs::is_directory(path, error)) {
    throw InputError(fmt::format("folder: {} is there and is not a folder", path.string()));
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    const auto name = entry.path().filename().string();
    if (std::ranges::find(replaceable, name) != replaceable.end()) continue;
    throw InputError(fmt::format("folder: {} is not empty: it holds {}{}", path.string(), name,
                                 replaceable.empty() ? "" : ", which would be lost"));
  }
}

// A hidden folder next to it.
fs::path beside(const fs::path& path, std::string_view suffix) {
  return path.parent_path() / fmt::format(".{}.{}", path.filename().string(), suffix);
}

bool is_still_at(const FileDescriptor& folder, const fs::path& path) {
  struct stat opened {
  }, found{};
  return ::fstat(folder.get(), &opened) == 0 && ::stat(path.c_str(), &found) == 0 &&
         opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

// Makes the folder or takes over what is left of it; the lock says whether anybody fills it now.
FileDescriptor make_locked(const fs::path& path) {
  while (true) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) fail("make", path, error);
    FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.is_open()) fail("open", path, {errno, std::generic_category()});
    // Where folders can't be locked (some network file systems) it goes without.
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw InputError(
          fmt::format("folder: another process is filling {}; wait for it, or choose another name",
                      path.string()));
    }
    // Between open and lock its owner may have finished and renamed it.
    if (is_still_at(folder, path)) return folder;
  }
}

void flush_file_system(const FileDescriptor& folder, const fs::path& path) {
  if (::syncfs(folder.get()) != 0) fail("flush", path, {errno, std::generic_category()});
}

}  // namespace

AtomicFolder::AtomicFolder(const fs::path& path, std::span<const std::string_view> replaceable)
    : path_(without_slash(path)), aside_(beside(path_, "part")) {
  check_existing(path_, replaceable);
  lock_ = make_locked(aside_);
  for (const auto& entry : fs::directory_iterator(aside_)) fs::remove_all(entry.path());
}

AtomicFolder::~AtomicFolder() {
  if (is_committed_) return;
  std::error_code ignored;  // a destructor has nobody to tell
  fs::remove_all(aside_, ignored);
}

void AtomicFolder::commit() {
  flush_file_system(lock_, aside_);
  const auto old = beside(path_, "old");
  std::error_code error;
  const bool replaces = fs::is_directory(path_, error) && !fs::is_empty(path_, error);
  if (replaces) {
    fs::remove_all(old);
    rename_durably(path_, old);
  }
  rename_durably(aside_, path_);
  is_committed_ = true;
  if (replaces) fs::remove_all(old);
}

}  // namespace kolo
