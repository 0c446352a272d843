#include "base/file_failure.h"

#include <cerrno>
#include <string_view>

#include <fmt/format.h>
#include <sys/resource.h>

namespace kolo {

namespace {

// The library's words are "filesystem error: cannot copy file: No such file or directory [a] [b]",
// "... status: ..." and "... directory iterator cannot open directory: ...".
std::string tried(std::string_view words) {
  const auto can_not = words.find("cannot ");
  if (can_not == words.npos) return "cannot look at";
  words.remove_prefix(can_not);
  return std::string(words.substr(0, words.find(": ")));
}

std::string_view what_to_do(int error_number) {
  switch (error_number) {
    case ENAMETOOLONG:
      return "; a name may have 255 bytes, and a path 4095: choose a shorter one";
    case ENOTDIR:
      return "; what stands before its last / has to be a folder: choose another path";
    case ELOOP:
      return "; it is a link that leads back to itself: choose another path, or mend the link";
    case EACCES:
    case EPERM:
      return "; this user may not: choose another path, or have its owner or permissions changed";
    case EROFS:
      return "; choose a path on a file system that can be written";
    case ENOSPC:
    case EDQUOT:
      return "; make room there, or choose a path on another file system";
    case ENOENT:
      return "; it has to be there until the command's end";
    default:
      return "; choose another path, if it stays so";
  }
}

}  // namespace

std::string describe(const std::filesystem::filesystem_error& failure) {
  const auto& first = failure.path1();
  const auto& second = failure.path2();
  return fmt::format("files: {} {}{}{}: {}{}", tried(failure.what()),
                     first.empty() ? "a file" : first.string(), second.empty() ? "" : " to ",
                     second.string(), failure.code().message(), what_to_do(failure.code().value()));
}

bool is_of_the_name(const std::filesystem::filesystem_error& failure) {
  const int reason = failure.code().value();
  return reason == ENAMETOOLONG || reason == ENOTDIR || reason == ELOOP;
}

std::optional<std::uint64_t> file_size_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  return limit.rlim_cur;
}

std::string describe_file_size_limit(std::uint64_t limit) {
  return fmt::format("files of this process may not be larger than {} bytes (ulimit -f)", limit);
}

std::string advice_on_file_size(int error_number) {
  if (error_number != EFBIG) return {};
  const auto limit = file_size_limit();
  if (!limit) return "; the file system takes no file of this size: choose a folder on another one";
  return fmt::format("; {}: raise that limit, with ulimit -f unlimited where you may",
                     describe_file_size_limit(*limit));
}

}  // namespace kolo
