#include "comm/mpi/one_mpi.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include "comm/mpi/mpi_group.h"
#include "kolo/base/error.h"
#include "kolo/comm/launcher.h"
#include "kolo/comm/mpi.h"

namespace kolo {

namespace {

#if defined(OPEN_MPI)
constexpr std::string_view own_kind = "Open MPI";
constexpr std::array<std::string_view, 3> other_kinds = {"MPICH", "MVAPICH", "Intel(R) MPI"};
#elif defined(MPICH_VERSION)
constexpr std::string_view own_kind = "MPICH";
constexpr std::array<std::string_view, 2> other_kinds = {"Open MPI", "Spectrum MPI"};
#else
constexpr std::string_view own_kind = "an MPI of another kind";
constexpr std::array<std::string_view, 0> other_kinds = {};
#endif

constexpr auto remedy =
    "build kolo with the MPI that the program uses, or the program with kolo's (kolo doctor names "
    "it), and preload none";

// The library itself, not what belongs to it: libmpi.so.40, libmpich.so.12.
bool is_mpi(std::string_view file) {
  return file.starts_with("libmpi.so") || file.starts_with("libmpich.so");
}

int note_mpi(dl_phdr_info* info, std::size_t, void* given) {
  auto& found = *static_cast<std::vector<std::string>*>(given);
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  if (is_mpi(path.substr(path.rfind('/') + 1)) && std::ranges::find(found, path) == found.end())
    found.emplace_back(path);
  return 0;
}

}  // namespace

void require_one_mpi() {
  const auto version = mpi_library_version();
  const bool is_other = std::ranges::any_of(
      other_kinds, [&](std::string_view kind) { return version.find(kind) != std::string::npos; });
  if (!is_other) return;
  throw InputError(
      fmt::format("comm: two MPIs in one process: kolo is built with {}, but the MPI that answers "
                  "here is {}{}; {}",
                  own_kind, parse_mpi_version(version).name, describe_other_mpi(), remedy));
}

std::string describe_other_mpi() {
  std::vector<std::string> found;
  ::dl_iterate_phdr(note_mpi, &found);
  if (found.size() < 2) return {};
  return fmt::format("; this process has loaded two: {}", fmt::join(found, " and "));
}

}  // namespace kolo
