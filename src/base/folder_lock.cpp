#include "kolo/base/folder_lock.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <exception>
#include <fstream>
#include <random>
#include <sstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file_size_limit.h"
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

// A field of /proc/PROCESS/stat, from the third on. Empty: there is no such process.
std::string field_of(std::int64_t process, int number) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text(std::istreambuf_iterator<char>(file), {});
  const auto behind_name = text.rfind(')');
  if (behind_name == std::string::npos) return {};
  std::istringstream words(text.substr(behind_name + 1));
  std::string word;
  for (int field = 3; field <= number; ++field) words >> word;
  return word;
}

// "1234-56789": the process and when it was started, in the kernel's ticks, because numbers of
// processes are used again. "1234-" where there is none, or one that has ended and nobody has asked
// how.
std::string name_of(std::int64_t process) {
  const bool has_ended = field_of(process, 3) == "Z";
  return fmt::format("{}-{}", process, has_ended ? std::string() : field_of(process, 22));
}

// Those of this process, but for the first of all, which adopts orphans.
std::vector<std::string> ancestors() {
  std::vector<std::string> names;
  for (std::int64_t process = ::getppid(); process > 1;) {
    names.push_back(name_of(process));
    process = parse_number<std::int64_t>(field_of(process, 4)).value_or(0);
  }
  return names;
}

// Of a holder on this machine.
bool is_orphan(const LockHolder& holder) {
  return std::ranges::any_of(holder.ancestors, [](const std::string& name) {
    const auto process = parse_number<std::int64_t>(name.substr(0, name.find('-')));
    return !process || name_of(*process) != name;
  });
}

std::string new_token() {
  std::random_device device;
  return fmt::format("{}-{:08x}{:08x}", name_of(::getpid()), device(), device());
}

// A token names the process's start, so that the process can be told from a later one.
bool is_running(const LockHolder& holder) {
  const auto name = name_of(holder.process);
  return !name.ends_with('-') && holder.token.starts_with(name + "-");
}

std::string text_of(const LockHolder& holder) {
  return fmt::format(
      "progress {:>{}}\nhost {}\nprocess {}\njob {}\nsince {:.3f}\ntoken {}\nancestors {}\n", "-",
      progress_width, holder.host, holder.process, holder.job, holder.since, holder.token,
      fmt::join(holder.ancestors, " "));
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
    std::istringstream words(key == "ancestors" ? value : "");
    for (std::string word; words >> word;) holder.ancestors.push_back(word);
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

bool is_at(const FileDescriptor& file, const fs::path& path) {
  struct stat opened {
  }, found{};
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &found) == 0 &&
         opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

double seconds_of(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// When the file was touched last, by the clock of the file system. Opened anew, so that a network
// file system asks its server.
std::optional<double> touched(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) return std::nullopt;
  return seconds_of(status.st_mtim);
}

// What that clock says now.
std::optional<double> now_beside(const fs::path& path) {
  std::string trial = path.string() + "-XXXXXX";
  const FileDescriptor file(::mkstemp(trial.data()));
  struct stat status {};
  if (!file.is_open()) return std::nullopt;
  const bool is_known = ::fstat(file.get(), &status) == 0;
  ::unlink(trial.c_str());
  return is_known ? std::optional(seconds_of(status.st_mtim)) : std::nullopt;
}

}  // namespace

int FolderLockOptions::system_flock(int file, int operation) {
  return ::flock(file, operation);
}

std::string LockHolder::describe() const {
  if (token.empty()) return "another process, which has just begun";
  const auto seconds = static_cast<std::time_t>(since);
  std::tm local{};
  std::array<char, 64> moment{};
  ::localtime_r(&seconds, &local);
  (void)std::strftime(moment.data(), moment.size(), "%Y-%m-%d %H:%M:%S", &local);
  return fmt::format("process {} on {}{}, since {}", process, host,
                     job.empty() ? "" : fmt::format(" ({})", job), moment.data());
}

FolderLock::FolderLock(const fs::path& folder, FolderLockOptions options)
    : options_(std::move(options)),
      path_(fs::absolute(folder) / options_.name),
      exceptions_(std::uncaught_exceptions()) {
  me_ = {host_name(), ::getpid(), options_.job, wall_time(), new_token(), ancestors(), {}};
  const auto begin = Clock::now();
  for (bool has_said = false; const auto holder = try_to_take(); has_said = true) {
    const bool may_end = holder->host == me_.host && is_orphan(*holder);
    const auto wait = may_end ? std::max(options_.wait, options_.wait_for_orphan) : options_.wait;
    const bool is_over = Clock::now() >= begin + wait;
    if (is_over && !fs::is_directory(path_.parent_path())) {
      throw Error(fmt::format("lock: {} can't be locked: there is no such folder (any more)",
                              folder.string()));
    }
    if (is_over) {
      throw InputError(fmt::format("{} is in use by {}{}", folder.string(), holder->describe(),
                                   options_.advice));
    }
    if (!has_said && wait >= std::chrono::seconds(1))
      options_.say(fmt::format("waiting for the end of {}", holder->describe()));
    std::this_thread::sleep_for(between_looks);
  }
  life_ = std::jthread([this](const std::stop_token& stop) { show_life(stop); });
}

FolderLock::~FolderLock() {
  life_ = {};
  // Removed while it is locked: whoever opened it meanwhile sees that it is gone.
  if (std::uncaught_exceptions() == exceptions_ && is_held()) ::unlink(path_.c_str());
}

// Who holds it; nothing: this process does now.
std::optional<LockHolder> FolderLock::try_to_take() {
  bool is_supported = true;
  auto holder = take_with_flock(is_supported);
  return is_supported ? holder : take_without_flock();
}

std::optional<LockHolder> FolderLock::take_with_flock(bool& is_supported) {
  while (true) {
    FileDescriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    const bool is_made_here = file.is_open();
    if (!is_made_here && errno == EEXIST)
      file = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    // Another process is moving the folder aside, and is about to make and take a new one.
    if (!file.is_open() && errno == ENOENT) return LockHolder{};
    if (!file.is_open()) fail("make", path_);
    while (options_.flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) return read_holder(path_).value_or(LockHolder{});
      // Without flock a file is its maker's.
      if (is_made_here) return take_made(std::move(file));
      is_supported = false;
      return std::nullopt;
    }
    // Between open and flock its owner may have ended and removed it.
    if (!is_at(file, path_)) continue;
    const auto earlier = read_holder(path_);
    if (earlier && is_alive(*earlier, true)) return earlier;
    return take_made(std::move(file));
  }
}

std::optional<LockHolder> FolderLock::take_made(FileDescriptor file) {
  write_down(file);
  file_ = std::move(file);
  return std::nullopt;
}

// The file is made by one process only. That of a dead holder is replaced by the one process that
// has made its successor, a file named after the dead one's token: O_EXCL gives that to one alone,
// and nobody else may replace the dead one's file as long as it is there. Whoever comes later sees
// that the lock is another's by now. A successor whose maker has died is older than the patience,
// and is removed, after which rename() of a maker that was only slow fails.
std::optional<LockHolder> FolderLock::take_without_flock() {
  FileDescriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.is_open()) return take_made(std::move(file));
  if (errno != EEXIST) fail("make", path_);
  const auto earlier = read_holder(path_).value_or(LockHolder{});
  if (is_alive(earlier, false)) return earlier;
  const fs::path successor = path_.string() + "." + earlier.token;
  FileDescriptor mine(::open(successor.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!mine.is_open()) {
    if (errno != EEXIST) fail("make", successor);
    const auto made = touched(successor), now = now_beside(path_);
    const double patience = std::chrono::duration<double>(options_.patience).count();
    if (made && now && *now - *made > patience) ::unlink(successor.c_str());
    return read_holder(successor).value_or(LockHolder{});
  }
  write_down(mine);
  const auto now = read_holder(path_).value_or(LockHolder{});
  if (now.token != earlier.token) {  // another has been quicker, and is done
    ::unlink(successor.c_str());
    return now;
  }
  if (::rename(successor.c_str(), path_.c_str()) != 0 || !is_at(mine, path_))
    return read_holder(path_).value_or(LockHolder{});
  file_ = std::move(mine);
  return std::nullopt;
}

// `is_locked_by_nobody`: this process has the flock, which tells all of a holder on this machine.
bool FolderLock::is_alive(const LockHolder& holder, bool is_locked_by_nobody) const {
  const bool is_here = holder.host == me_.host;
  if (is_here) return !is_locked_by_nobody && is_running(holder);
  const auto first = touched(path_), now = now_beside(path_);
  if (!first) return false;
  const double patience = std::chrono::duration<double>(options_.patience).count();
  if (now && *now - *first > patience) return false;
  options_.say(
      fmt::format("looking whether {} is still alive: {:.0f} s", holder.describe(), patience));
  for (const auto end = Clock::now() + options_.patience; Clock::now() < end;) {
    std::this_thread::sleep_for(between_looks);
    const auto last = touched(path_);
    if (!last) return false;
    if (*last != *first) return true;
  }
  return false;
}

void FolderLock::write_down(const FileDescriptor& file) const {
  const auto text = text_of(me_);
  if (::ftruncate(file.get(), 0) != 0 || ::lseek(file.get(), 0, SEEK_SET) != 0)
    fail("write", path_);
  write_all(file.get(), std::as_bytes(std::span(text)), path_);
  if (::fsync(file.get()) != 0) fail("flush", path_);
}

void FolderLock::show_life(const std::stop_token& stop) {
  std::unique_lock lock(wake_mutex_);
  while (!wake_.wait_for(lock, stop, options_.heartbeat, [&] { return stop.stop_requested(); }))
    (void)::futimens(file_.get(), nullptr);  // a file system that refuses has flock, or no others
}

bool FolderLock::is_held() const {
  return is_at(file_, path_);
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

std::optional<LockHolder> FolderLock::living_holder(const fs::path& folder,
                                                    const std::string& name) {
  const auto path = folder / name;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return std::nullopt;
  auto holder = read_holder(path);
  if (!holder) return std::nullopt;
  if (holder->host == host_name() && is_orphan(*holder)) return std::nullopt;
  if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0) return std::nullopt;  // released when it closes
  const bool is_locked = errno == EWOULDBLOCK;
  return is_locked || (holder->host == host_name() && is_running(*holder)) ? holder : std::nullopt;
}

}  // namespace kolo
