#pragma once

#include <string>

#include "comm/mpi/mpi_calls.h"
#include "kolo/comm/mpi.h"

namespace kolo {

// Initialized MPI. This object finalizes it if it has initialized it.
class MpiRuntime {
 public:
  MpiRuntime(ThreadLevel wanted, const LaunchEnvironment& environment);
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;
  // Calls MPI_Finalize, but not while an exception that arose after construction unwinds the stack:
  // the other ranks don't come to it, and without it the launcher sees a failed process and ends
  // the job.
  ~MpiRuntime();

  [[nodiscard]] bool is_owner() const { return is_owner_; }

 private:
  bool is_owner_ = false;
  int exceptions_at_start_;
};

[[nodiscard]] bool is_mpi_initialized();

// Thread level that MPI has granted to this process; it must be initialized.
[[nodiscard]] ThreadLevel granted_thread_level();

// Throws InputError where the MPI that answers in this process is of another kind than that whose
// header kolo was compiled with: the program is linked with another one, or one is preloaded.
// Handles are then of different types, so this comes before any call that takes one.
void require_one_mpi();

// Words about another MPI in this process, which the program may have initialized instead: "; this
// process has two MPIs, ...". Empty: there is none.
[[nodiscard]] std::string describe_other_mpi();

// Finalizes MPI at exit(0), or at the return from main(), while communicators live: exit() destroys
// no locals, and without MPI_Finalize launchers take a job that is done for a failed one. Does
// nothing for another status, which the launcher is to see at once. Says why where it can't.
void finalize_at_exit(int rank);

}  // namespace kolo
