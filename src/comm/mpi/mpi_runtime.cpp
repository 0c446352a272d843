#include "comm/mpi/mpi_runtime.h"

#include <array>
#include <exception>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  throw Error(fmt::format("comm: {} failed with code {}: {}", call, code,
                          std::string_view(text.data(), static_cast<std::size_t>(length))));
}

std::string_view name_of(ThreadLevel level) {
  constexpr std::string_view names[] = {"single", "funneled", "serialized", "multiple"};
  return names[static_cast<std::size_t>(level)];
}

namespace {

constexpr std::array mpi_levels = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                   MPI_THREAD_MULTIPLE};

ThreadLevel from_mpi(int provided) {
  for (std::size_t level = 0; level < mpi_levels.size(); ++level) {
    if (mpi_levels[level] == provided) return static_cast<ThreadLevel>(level);
  }
  throw Error(fmt::format("comm: MPI granted an unknown thread level, {}", provided));
}

}  // namespace

MpiRuntime::MpiRuntime(ThreadLevel wanted) : exceptions_at_start_(std::uncaught_exceptions()) {
  int is_initialized = 0, is_finalized = 0, provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Finalized(&is_finalized), "MPI_Finalized");
  if (is_finalized) {
    throw Error(
        "comm: MPI was already finalised, and it can be initialised only once in a process; keep "
        "one communicator alive "
        "until the last use");
  }
  check_mpi(MPI_Initialized(&is_initialized), "MPI_Initialized");
  if (is_initialized) {
    check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  } else {
    check_mpi(
        MPI_Init_thread(nullptr, nullptr, mpi_levels[static_cast<std::size_t>(wanted)], &provided),
        "MPI_Init_thread");
    is_owner_ = true;
  }
  granted_ = from_mpi(provided);
}

MpiRuntime::~MpiRuntime() {
  int is_finalized = 0;
  const bool is_there = MPI_Finalized(&is_finalized) == MPI_SUCCESS && !is_finalized;
  if (is_owner_ && is_there && std::uncaught_exceptions() <= exceptions_at_start_) MPI_Finalize();
}

}  // namespace kolo
