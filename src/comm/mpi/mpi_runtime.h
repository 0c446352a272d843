#pragma once

#include <string>

#include "comm/mpi/mpi_calls.h"
#include "kolo/comm/mpi.h"

namespace kolo {

// MPI, initialized: by this object, which then also finalizes it, or before.
class MpiRuntime {
 public:
  MpiRuntime(ThreadLevel wanted, const LaunchEnvironment& environment);
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;
  // MPI_Finalize, where this object has initialized MPI. Not so while an exception that arose after
  // construction unwinds the stack: the other ranks don't come to it. Without MPI_Finalize the
  // launcher sees a failed process and ends the job, which is what an exception should lead to.
  ~MpiRuntime();

  [[nodiscard]] bool is_owner() const { return is_owner_; }

 private:
  bool is_owner_ = false;
  int exceptions_at_start_;
};

[[nodiscard]] bool is_mpi_initialized();

// Thread level that MPI has granted to this process; it must be initialized.
[[nodiscard]] ThreadLevel granted_thread_level();

// InputError where the MPI that is called in this process is not of the kind whose header kolo was
// compiled with: a program is linked with one MPI and kolo with another, or one is preloaded. Their
// handles are of different types, so each call ends the program or does something else. To be asked
// before any call that takes a handle.
void require_one_mpi();

// Words about another MPI in this process, which the program has perhaps initialized in place of
// this one: "; this process has two MPIs, ...". Empty: there is no other.
[[nodiscard]] std::string describe_other_mpi();

// Has the MPI that kolo has initialized finalized where the process ends by exit(0), or by
// returning from main(), while communicators live. exit() destroys no locals, and a handle may be
// lost; without MPI_Finalize launchers take a job that is done for one that has failed. With
// another status nothing is done: the launcher is to see it at once. Where the end can't be made,
// it is said why.
void finalize_at_exit(int rank);

}  // namespace kolo
