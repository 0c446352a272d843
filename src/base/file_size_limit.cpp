#include "base/file_size_limit.h"

#include <cerrno>

#include <fmt/format.h>
#include <sys/resource.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// Files of Open MPI 4.1 and its PMIx are 4 MiB and a little more.
constexpr std::uint64_t files_of_mpi = std::uint64_t{5} << 20;

}  // namespace

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

void require_room_for_shared_memory(const std::string& subsystem,
                                    std::optional<std::uint64_t> limit,
                                    const std::string& way_out) {
  if (!limit || *limit >= files_of_mpi) return;
  throw InputError(fmt::format(
      "{}: {}, and the ranks of a machine share memory in files of up to {} bytes: raise that "
      "limit, with ulimit -f unlimited where you may, or {}",
      subsystem, describe_file_size_limit(*limit), files_of_mpi, way_out));
}

}  // namespace kolo
