#include "data/fetch/fetch_lock.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw Error(system_error_text(fmt::format("fetch: cannot lock {}", path.string()), errno));
}

bool try_lock(const FileDescriptor& file, const std::filesystem::path& path) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK) fail(path);
  return false;
}

void lock(const FileDescriptor& file, const std::filesystem::path& path) {
  while (::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) fail(path);
  }
}

// The last owner removes the file: who waited for that one has to try again.
bool is_at(const FileDescriptor& file, const std::filesystem::path& path) {
  struct stat opened {
  }, found{};
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &found) == 0 &&
         opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

}  // namespace

FetchLock::FetchLock(const std::filesystem::path& folder, const std::function<void()>& wait)
    : path_(folder / ".fetch.lock") {
  do {
    file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file_.is_open()) fail(path_);
    if (try_lock(file_, path_)) continue;
    wait();
    lock(file_, path_);
  } while (!is_at(file_, path_));
}

FetchLock::~FetchLock() {
  std::error_code ignored;  // an empty file that stays does no harm
  std::filesystem::remove(path_, ignored);
}

}  // namespace kolo
