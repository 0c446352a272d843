#pragma once

// MPI's C interface, without the C++ one that MPI-3 removed and some versions still bring.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "kolo/base/error.h"

namespace kolo {

// A call of MPI's has failed.
class MpiError : public Error {
 public:
  using Error::Error;
};

// Throws MpiError with MPI's own words when a call did not return MPI_SUCCESS.
void check_mpi(int code, const char* call);

// Some of the job's ranks: a communicator of kolo's own, with errors returned instead of fatal.
// Copies mean the same. Nothing frees it by itself, because freeing is collective: see MpiKeeping.
class MpiGroup {
 public:
  MpiGroup() = default;  // of no ranks

  // The same ranks in the same order. Nothing of what is attached to the given communicator comes
  // along, as MPI_Comm_dup() would have it: attributes, whose copying calls functions of their
  // owner's, and hints, which may promise what kolo does not keep. Collective.
  [[nodiscard]] static MpiGroup of(MPI_Comm communicator);
  // Ranks with the same colour, in the order of (key, rank); colour < 0: in none (an empty group).
  [[nodiscard]] MpiGroup split(int color, int key = 0) const;
  void free();
  [[nodiscard]] bool is_empty() const { return communicator_ == MPI_COMM_NULL; }

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
