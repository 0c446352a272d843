#include "kolo/base/folder_lock.h"

#include <array>
#include <cerrno>
#include <ctime>
#include <exception>
#include <random>
#include <span>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/file_failure.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t progress_width = 20;
constexpr auto between_looks = std::chrono::milliseconds(100);

[[noreturn]] void fail(std::string_view verb, const fs::path& path) {
  const int reason = errno;
  throw Error(system_error_text(fmt::format("lock: cannot {} {}", verb, path.string()), reason) +
              advice_on_file_size(reason));
}

std::string new_token() {
  std::random_device device;
  return fmt::format("{}-{:08x}{:08x}", ::getpid(), device(), device());
}

std::string text_of(const LockHolder& holder) {
  return fmt::format("progress {:>{}}\nhost {}\nprocess {}\njob {}\nsince {:.3f}\ntoken {}\n", "-",
                     progress_width, holder.host, holder.process, holder.job, holder.since,
                     holder.token);
}

// Nothing for a file that is not written yet.
std::optional<LockHolder> parse(const std::string& text) {
  LockHolder holder;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto space = line.find(' ');
    const auto key = line.substr(0, space);
    auto value = space == std::string::npos ? "" : line.substr(space + 1);
    if (key == "progress")
      holder.progress = parse_number<std::int64_t>(value.substr(value.find_last_of(' ') + 1));
    if (key == "host") holder.host = value;
    if (key == "process") holder.process = parse_number<std::int64_t>(value).value_or(0);
    if (key == "job") holder.job = value;
    if (key == "since") holder.since = parse_number<double>(value).value_or(0);
    if (key == "token") holder.token = value;
  }
  return holder.token.empty() ? std::nullopt : std::optional(std::move(holder));
}

std::optional<LockHolder> read_holder(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return std::nullopt;
  std::string text(4096, '\0');
  const auto size = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return parse(text);
}

// Holder by its file, where the file system has no flock.
LockHolder holder_by_file(const fs::path& path) {
  auto holder = read_holder(path).value_or(LockHolder{});
  holder.file = path;
  return holder;
}

}  // namespace

std::string LockHolder::describe() const {
  const auto remedy =
      file.empty() ? ""
                   : fmt::format(" (the file system has no flock: if that has ended, rm '{}')",
                                 file.string());
  if (token.empty()) return "another process, which has just begun" + remedy;
  const auto seconds = static_cast<std::time_t>(since);
  std::tm local{};
  std::array<char, 64> moment{};
  ::localtime_r(&seconds, &local);
  (void)std::strftime(moment.data(), moment.size(), "%Y-%m-%d %H:%M:%S", &local);
  return fmt::format("process {} on {}{}, since {}{}", process, host,
                     job.empty() ? "" : fmt::format(" ({})", job), moment.data(), remedy);
}

FolderLock::FolderLock(const fs::path& folder, FolderLockOptions options)
    : options_(std::move(options)),
      path_(fs::absolute(folder) / options_.name),
      exceptions_(std::uncaught_exceptions()) {
  me_ = {host_name(), ::getpid(), options_.job, wall_time(), new_token(), {}, {}};
  const auto end = Clock::now() + options_.wait;
  for (bool has_said = false; const auto holder = try_to_take(); has_said = true) {
    const bool is_over = Clock::now() >= end || !holder->file.empty();
    if (is_over && !fs::is_directory(path_.parent_path())) {
      throw Error(fmt::format("lock: {} can't be locked: there is no such folder (any more)",
                              folder.string()));
    }
    if (is_over) {
      throw InputError(fmt::format("{} is in use by {}{}", folder.string(), holder->describe(),
                                   options_.advice));
    }
    if (!has_said && options_.wait >= std::chrono::seconds(1))
      options_.say(fmt::format("waiting for the end of {}", holder->describe()));
    std::this_thread::sleep_for(between_looks);
  }
}

FolderLock::~FolderLock() {
  const bool is_to_stay = has_flock_ && std::uncaught_exceptions() != exceptions_;
  // Removed while it is locked: a process that opened it meanwhile sees that it is gone.
  if (!is_to_stay && is_held()) ::unlink(path_.c_str());
}

namespace {

// Opens a lock's file that is there. Error for anything else under its name: what a link leads to
// would be overwritten.
FileDescriptor open_made(const fs::path& path) {
  FileDescriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
  const int reason = errno;
  struct stat status {};
  const bool is_known = file.is_open() && ::fstat(file.get(), &status) == 0;
  const bool is_other = is_known ? !S_ISREG(status.st_mode) || status.st_nlink > 1
                                 : reason == ELOOP || reason == EISDIR || reason == ENXIO;
  if (is_other)
    throw InputError(fmt::format(
        "lock: {} is not a file that kolo has made (it is a link, a folder or a device); remove "
        "it, or choose another folder",
        path.string()));
  errno = reason;
  return file;
}

}  // namespace

// Holder of the lock; nothing: this process has it now.
std::optional<LockHolder> FolderLock::try_to_take() {
  while (true) {
    FileDescriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    const bool is_made_here = file.is_open();
    if (!is_made_here && errno == EEXIST) file = open_made(path_);
    // Another process is moving the folder aside, and is about to make and take a new one.
    if (!file.is_open() && errno == ENOENT) return LockHolder{};
    if (!file.is_open()) fail("make", path_);
    const int problem = lock_file(file, /*waits=*/false, options_.flock);
    if (problem == EWOULDBLOCK) return read_holder(path_).value_or(LockHolder{});
    has_flock_ = problem == 0;                           // other problems: there is no flock
    if (has_flock_ && !leads_to(path_, file)) continue;  // its owner has just removed it
    if (!has_flock_ && !is_made_here) {
      if (!options_.replaces_file) return holder_by_file(path_);
      if (::unlink(path_.c_str()) != 0 && errno != ENOENT) fail("remove", path_);
      continue;
    }
    take_made(std::move(file));
    return std::nullopt;
  }
}

void FolderLock::take_made(FileDescriptor file) {
  const auto text = text_of(me_);
  if (::ftruncate(file.get(), 0) != 0 || ::lseek(file.get(), 0, SEEK_SET) != 0)
    fail("write", path_);
  write_all(file.get(), std::as_bytes(std::span(text)), path_);
  if (::fsync(file.get()) != 0) fail("flush", path_);
  file_ = std::move(file);
}

bool FolderLock::is_held() const {
  return leads_to(path_, file_);
}

void FolderLock::follow(const fs::path& folder) {
  path_ = fs::absolute(folder) / options_.name;
}

void FolderLock::note(std::int64_t progress) {
  constexpr std::size_t begin = std::string_view("progress ").size();
  const auto text = fmt::format("{:>{}}", progress, progress_width);
  [[maybe_unused]] const auto written = ::pwrite(file_.get(), text.data(), text.size(), begin);
}

std::optional<LockHolder> FolderLock::last_holder(const fs::path& folder, const std::string& name) {
  return read_holder(folder / name);
}

std::optional<LockHolder> FolderLock::living_holder(const fs::path& folder, const std::string& name,
                                                    FlockCall flock) {
  const auto path = folder / name;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return std::nullopt;
  if (flock(file.get(), LOCK_SH | LOCK_NB) == 0) return std::nullopt;  // released when it closes
  return errno == EWOULDBLOCK ? read_holder(path) : holder_by_file(path);
}

}  // namespace kolo
