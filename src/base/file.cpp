#include "kolo/base/file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_failure.h"
#include "kolo/base/error.h"
#include "kolo/base/file_kind.h"

namespace kolo {

namespace {

constexpr std::string_view unfinished_suffix = ".part";

[[noreturn]] void fail(const char* verb, const std::filesystem::path& path) {
  const int reason = errno;
  throw Error(system_error_text(fmt::format("file: cannot {} {}", verb, path.string()), reason) +
              advice_on_file_size(reason));
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (is_open()) ::close(descriptor_);
}

void FileDescriptor::close(const std::filesystem::path& path) {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("close", path);
}

void write_all(int descriptor, std::span<const std::byte> bytes,
               const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void write_at(int descriptor, std::span<const std::byte> bytes, std::int64_t offset,
              const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
}

std::size_t read_up_to(int descriptor, std::span<std::byte> bytes,
                       const std::filesystem::path& path) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(descriptor, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

FileDescriptor open_regular_file(const std::filesystem::path& path) {
  // O_NONBLOCK: a named pipe must not block the open; it has no effect on regular files.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open() && errno == ENOENT) throw Error(missing_path_text(path));
  if (!file.is_open()) fail("open", path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("inspect", path);
  if (!S_ISREG(status.st_mode)) {
    throw Error(fmt::format("file: {} is {}, expected a regular file", path.string(),
                            S_ISDIR(status.st_mode) ? "a folder" : "not a regular file"));
  }
  return file;
}

FileDescriptor open_input_file(const std::filesystem::path& path, std::string_view subject) {
  try {
    return open_regular_file(path);
  } catch (const Error& error) {
    throw InputError(fmt::format("{}: {}", subject, error.what()));
  }
}

std::int64_t size_in_bytes(const FileDescriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("inspect", path);
  return status.st_size;
}

std::string read_text_file(const std::filesystem::path& path) {
  const FileDescriptor file = open_regular_file(path);
  std::string text;
  std::size_t done = 0;
  do {
    text.resize(done + 65536);
    done += read_up_to(file.get(), std::as_writable_bytes(std::span(text).subspan(done)), path);
  } while (done == text.size());
  text.resize(done);
  return text;
}

void open_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free is this one: those below are open by now.
    if (::open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_RDWR) < 0)
      return;  // nothing there either: it stays closed
  }
}

void flush_to_disk(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) fail("open", path);
  if (::fsync(file.get()) != 0) fail("flush", path);
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) {
    throw Error(fmt::format("file: cannot rename {} to {}: {}", from.string(), to.string(),
                            error.message()));
  }
  const auto folder = to.parent_path();
  flush_to_disk(folder.empty() ? "." : folder);
}

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)),
      aside_(unfinished_file(path_)),
      file_(::open(aside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (!file_.is_open()) fail("create", aside_);
}

AtomicFile::~AtomicFile() {
  if (is_committed_) return;
  std::error_code ignored;  // a destructor has nobody to tell, and the file is not needed
  std::filesystem::remove(aside_, ignored);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(file_.get(), bytes, aside_);
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) fail("flush", aside_);
  file_.close(aside_);
  rename_durably(aside_, path_);
  is_committed_ = true;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

int system_flock(int file, int operation) {
  return ::flock(file, operation);
}

int lock_file(const FileDescriptor& file, bool waits, FlockCall flock) {
  while (flock(file.get(), waits ? LOCK_EX : LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

bool leads_to(const std::filesystem::path& path, const FileDescriptor& file) {
  struct stat opened {
  }, found{};
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &found) == 0 &&
         opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

std::filesystem::path unfinished_file(const std::filesystem::path& file) {
  return file.string() + fmt::format(".{}{}", ::getpid(), unfinished_suffix);
}

bool is_unfinished_file(std::string_view name, std::string_view file) {
  if (!name.starts_with(file) || !name.ends_with(unfinished_suffix)) return false;
  name.remove_prefix(file.size());
  if (name.size() <= unfinished_suffix.size() + 1 || name.front() != '.') return false;
  name.remove_prefix(1);
  name.remove_suffix(unfinished_suffix.size());
  return std::ranges::all_of(name, [](char letter) { return letter >= '0' && letter <= '9'; });
}

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

// Makes the folder or takes over the rest of an earlier one; the lock tells whether anybody fills
// it now.
FileDescriptor make_locked(const fs::path& path) {
  while (true) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) fail("make", path, error);
    FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.is_open()) fail("open", path, {errno, std::generic_category()});
    // Some network file systems can't lock folders: then it goes without.
    if (lock_file(folder) == EWOULDBLOCK) {
      throw InputError(
          fmt::format("folder: another process is filling {}; wait for it, or choose another name",
                      path.string()));
    }
    // Between open and lock its owner may have finished and renamed it.
    if (leads_to(path, folder)) return folder;
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
