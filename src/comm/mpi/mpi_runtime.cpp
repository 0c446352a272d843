#include "comm/mpi/mpi_runtime.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <unistd.h>

#include "comm/executor.h"
#include "comm/messages.h"
#include "comm/mpi/mpi_calls.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/comm/launcher.h"
#include "kolo/comm/mpi.h"

namespace kolo {

namespace {

constexpr std::array mpi_levels = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                   MPI_THREAD_MULTIPLE};

}  // namespace

ThreadLevel granted_thread_level() {
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  const auto found = std::ranges::find(mpi_levels, provided);
  if (found == mpi_levels.end())
    throw Error(fmt::format("comm: MPI granted an unknown thread level, {}", provided));
  return static_cast<ThreadLevel>(found - mpi_levels.begin());
}

bool is_mpi_initialized() {
  int is_initialized = 0;
  check_mpi(MPI_Initialized(&is_initialized), "MPI_Initialized");
  return is_initialized != 0;
}

MpiRuntime::MpiRuntime(ThreadLevel wanted, const LaunchEnvironment& environment)
    : exceptions_at_start_(std::uncaught_exceptions()) {
  int is_finalized = 0, provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Finalized(&is_finalized), "MPI_Finalized");
  if (is_finalized) {
    throw StateError(
        "comm: MPI was already finalized, and it can be initialized only once in a process; keep "
        "one communicator alive until the last use");
  }
  if (!is_mpi_initialized()) {
    ::setenv(hwloc_components, hwloc_without_displays, 0);
    // Open MPI takes one that is alone in a step for one of several.
    const auto step = environment_variable("SLURM_STEP_ID");
    const bool is_alone = step && is_alone_under_srun(environment);
    if (is_alone) ::unsetenv("SLURM_STEP_ID");
    const int result =
        MPI_Init_thread(nullptr, nullptr, mpi_levels[static_cast<std::size_t>(wanted)], &provided);
    if (is_alone) ::setenv("SLURM_STEP_ID", step->c_str(), 1);
    check_mpi(result, "MPI_Init_thread");
    is_owner_ = true;
  }
}

MpiRuntime::~MpiRuntime() {
  int is_finalized = 0;
  const bool is_there = MPI_Finalized(&is_finalized) == MPI_SUCCESS && !is_finalized;
  if (is_owner_ && is_there && std::uncaught_exceptions() <= exceptions_at_start_) MPI_Finalize();
}

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  return first_line_of(text.data());  // Open MPI counts the final zero in the length
}

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

// Tells whether it is the library itself: libmpi.so.40, libmpich.so.12.
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

namespace {

struct EndOfProcess {
  pid_t process = ::getpid();
  int rank = 0;
};

void end_mpi(int status, void* given) {
  const auto& end = *static_cast<const EndOfProcess*>(given);
  int is_finalized = 0;
  if (::getpid() != end.process || status != 0 || MPI_Finalized(&is_finalized) != MPI_SUCCESS ||
      is_finalized != 0)
    return;
  int is_main = 0;
  const bool is_other = MPI_Is_thread_main(&is_main) != MPI_SUCCESS || is_main == 0;
  const auto reason = Executor::what_forbids_end(is_other, "initialized MPI");
  if (!reason.empty()) {
    return print_line(fmt::format(
        "rank {}: the program ends with status 0, but {}, so MPI is not finalized, and the "
        "launcher takes that for a failure of the job; return from main() instead",
        end.rank, reason));
  }
  MPI_Finalize();
}

}  // namespace

void finalize_at_exit(int rank) {
  auto end = std::make_unique<EndOfProcess>();
  end->rank = rank;
  if (::on_exit(end_mpi, end.get()) == 0) (void)end.release();  // it is the process's now
}

}  // namespace kolo
