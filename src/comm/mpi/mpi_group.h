#pragma once

// MPI's C interface, without the C++ one that MPI-3 removed and some versions still bring.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace kolo {

// Throws Error with MPI's own words when a call did not return MPI_SUCCESS.
void check_mpi(int code, const char* call);

// Some of the job's ranks: a duplicate of MPI_COMM_WORLD or part of it, with errors returned
// instead of fatal. Copies mean the same. Nothing frees it by itself, because freeing is
// collective: see MpiKeeping.
class MpiGroup {
 public:
  MpiGroup() = default;  // of no ranks

  [[nodiscard]] static MpiGroup world();
  // Ranks with the same colour, in the order of (key, rank); colour < 0: in none (an empty group).
  [[nodiscard]] MpiGroup split(int color, int key = 0) const;
  void free();

  [[nodiscard]] MPI_Comm get() const { return communicator_; }
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

  // Whether it is so on every rank, and what is least. Collective.
  [[nodiscard]] bool all_ranks(bool mine) const;
  [[nodiscard]] int least(int mine) const;

 private:
  explicit MpiGroup(MPI_Comm communicator);

  MPI_Comm communicator_ = MPI_COMM_NULL;
};

}  // namespace kolo
