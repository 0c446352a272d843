#include "handles.h"

#include <cstddef>
#include <memory>
#include <string>

#include "kolo/base/error.h"

namespace kolo::bindings {

Handles& handles() {
  alignas(Handles) static std::byte place[sizeof(Handles)];
  static Handles* const made = std::construct_at(reinterpret_cast<Handles*>(&place));
  return *made;
}

void require_mpi() {
  int is = 0;
  if (MPI_Initialized(&is) != MPI_SUCCESS || is == 0)
    throw StateError("MPI is not initialized; call MPI_Init or MPI_Init_thread before");
  if (MPI_Finalized(&is) != MPI_SUCCESS || is != 0)
    throw StateError("MPI was finalized; kolo's calls come before MPI_Finalize");
}

std::uintptr_t number_of(const void* handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

void meet(const Call& call, const Communicator& communicator, const std::exception_ptr& problem) {
  const int none = communicator.size();
  const int mine = problem ? communicator.rank() : none;
  const int first = all_reduce_value(communicator, mine, ReduceOp::min);
  if (problem) std::rethrow_exception(problem);
  if (first < none)
    throw CommunicationError("rank " + std::to_string(first) + " could not go on in " + call.name +
                             "; its own message says why");
}

}  // namespace kolo::bindings
