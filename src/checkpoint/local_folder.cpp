#include "kolo/checkpoint/local_folder.h"

#include <cerrno>
#include <ctime>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "checkpoint/step_folders.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = "lock";

std::string name_prefix() {
  return fmt::format("kolo-{}-", ::geteuid());
}

[[noreturn]] void fail(std::string_view what, const fs::path& path) {
  throw Error(
      system_error_text(fmt::format("local copies: cannot {} {}", what, path.string()), errno));
}

// A folder itself, not a link to one, that nobody else may look into or change.
bool is_private(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

// In a folder that all may write to, entries are their owners' only where it is sticky.
void require_place(const fs::path& place) {
  struct stat status {};
  if (::stat(place.c_str(), &status) != 0) fail("use", place);
  if (!S_ISDIR(status.st_mode))
    throw Error(fmt::format("local copies: {} is not a folder", place.string()));
  const bool is_open_to_others = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (is_open_to_others && (status.st_mode & S_ISVTX) == 0) {
    throw Error(fmt::format(
        "local copies: others may replace what is in {}, which is not sticky; expected a folder of "
        "your own, or one like /tmp (chmod +t)",
        place.string()));
  }
}

// Open where this process has it now; nothing where another one has.
FileDescriptor lock_in(const fs::path& folder) {
  const auto path = folder / lock_name;
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) fail("make", path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno != EWOULDBLOCK) fail("lock", path);
  return {};
}

// Copies and the lock, and then the folder unless something else lies in it. False: it stays.
bool remove_copies(const fs::path& folder) {
  CheckpointStore({folder, 1, false}).remove_after(-1);
  remove_leftovers(folder);
  std::error_code ignored;
  fs::remove(folder / lock_name, ignored);
  return ::rmdir(folder.c_str()) == 0;
}

// Than that, by when its last copy was renamed into it.
bool is_older(const fs::path& folder, std::chrono::hours age) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return false;
  return std::time(nullptr) - status.st_mtime > std::chrono::seconds(age).count();
}

}  // namespace

LocalFolder::LocalFolder(const fs::path& place, std::string_view key)
    : place_(fs::absolute(place)), path_(place_ / fmt::format("{}{}", name_prefix(), key)) {}

CheckpointStore LocalFolder::store() const {
  return CheckpointStore({path_, /*keep_last=*/1, /*makes_folders_above=*/false});
}

bool LocalFolder::take() {
  require_place(place_);
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) fail("make", path_);
  if (!is_private(path_)) {
    throw Error(fmt::format(
        "local copies: {} is not a folder of this user's alone; remove it, or name another place",
        path_.string()));
  }
  lock_ = lock_in(path_);
  return lock_.is_open();
}

bool LocalFolder::is_ours() const {
  return is_private(path_);
}

void LocalFolder::require_room(std::uint64_t bytes) const {
  struct statfs room {};
  if (::statfs(place_.c_str(), &room) != 0) fail("look into", place_);
  auto left = static_cast<std::uint64_t>(room.f_bavail) * static_cast<std::uint64_t>(room.f_bsize);
  std::string_view what = "room";
  const auto memory = room.f_type == TMPFS_MAGIC ? available_memory() : std::nullopt;
  if (memory && static_cast<std::uint64_t>(*memory) < left) {
    left = static_cast<std::uint64_t>(*memory);
    what = "memory";
  }
  if (left >= bytes) return;
  throw Error(fmt::format("local copies: {} has {} for {} bytes, and a copy takes {}",
                          place_.string(), what, left, bytes));
}

void LocalFolder::remove() {
  if (is_ours()) remove_copies(path_);
  lock_ = FileDescriptor();
}

std::vector<fs::path> LocalFolder::remove_stale(std::chrono::hours age) const {
  std::vector<fs::path> removed;
  std::error_code error;
  for (fs::directory_iterator entry(place_, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto& path = entry->path();
    if (path == path_ || !path.filename().string().starts_with(name_prefix())) continue;
    if (!is_private(path) || !fs::exists(path / lock_name) || !is_older(path, age)) continue;
    try {
      if (const auto lock = lock_in(path); lock.is_open() && remove_copies(path))
        removed.push_back(path);
    } catch (const Error&) {  // it stays
      continue;
    }
  }
  return removed;
}

}  // namespace kolo
