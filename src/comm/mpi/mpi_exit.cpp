#include "comm/mpi/mpi_exit.h"

#include <cstdlib>
#include <memory>

#include <fmt/format.h>

#include "comm/executor.h"
#include "comm/messages.h"
#include "comm/mpi/mpi_group.h"
#include "kolo/base/own_process.h"

namespace kolo {

namespace {

struct EndOfProcess {
  OwnProcess process;
  int rank = 0;
};

// Why MPI can't be finalized from here; null: it can.
const char* what_forbids_end() {
  int is_main = 0;
  if (MPI_Is_thread_main(&is_main) != MPI_SUCCESS || is_main == 0)
    return "another thread than that which initialized MPI has called exit()";
  if (Executor::is_running_here()) return "exit() was called inside a collective";
  return nullptr;
}

void at_exit(int status, void* given) {
  const auto& end = *static_cast<const EndOfProcess*>(given);
  int is_finalized = 0;
  if (!end.process.is_here() || status != 0 || MPI_Finalized(&is_finalized) != MPI_SUCCESS ||
      is_finalized != 0)
    return;
  if (const char* const reason = what_forbids_end()) {
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
  if (::on_exit(at_exit, end.get()) == 0) (void)end.release();  // it is the process's now
}

}  // namespace kolo
