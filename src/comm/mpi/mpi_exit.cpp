#include "comm/mpi/mpi_exit.h"

#include <cstdlib>

#include <fmt/format.h>

#include "comm/messages.h"
#include "comm/mpi/mpi_group.h"
#include "kolo/base/own_process.h"

namespace kolo {

namespace {

struct EndOfProcess {
  OwnProcess process;
  std::weak_ptr<Executor> executor;
  int rank = 0;
};

// Why MPI can't be finalized from here; null: it can.
const char* what_forbids_end(const EndOfProcess& end) {
  int is_main = 0;
  if (MPI_Is_thread_main(&is_main) != MPI_SUCCESS || is_main == 0)
    return "another thread than that which initialized MPI has called exit()";
  const auto executor = end.executor.lock();
  if (executor && executor->is_running_here()) return "exit() was called inside a collective";
  return nullptr;
}

void at_exit(int status, void* given) {
  const auto& end = *static_cast<const EndOfProcess*>(given);
  int is_finalized = 0;
  if (!end.process.is_here() || status != 0 || MPI_Finalized(&is_finalized) != MPI_SUCCESS ||
      is_finalized != 0)
    return;
  if (const char* const reason = what_forbids_end(end)) {
    return print_line(fmt::format(
        "rank {}: the program ends with status 0, but {}, so MPI is not finalized, and the "
        "launcher takes that for a failure of the job; return from main() instead",
        end.rank, reason));
  }
  MPI_Finalize();
}

}  // namespace

void finalize_at_exit(const std::shared_ptr<Executor>& executor, int rank) {
  auto end = std::make_unique<EndOfProcess>();
  end->executor = executor;
  end->rank = rank;
  if (::on_exit(at_exit, end.get()) == 0) (void)end.release();  // it is the process's now
}

}  // namespace kolo
