#include "base/file_size_limit.h"

#include <cerrno>

#include <fmt/format.h>
#include <sys/resource.h>

namespace kolo {

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
