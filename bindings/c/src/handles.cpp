#include "handles.h"

#include <cstddef>
#include <memory>

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

}  // namespace kolo::bindings
