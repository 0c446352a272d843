#pragma once

#include "comm/mpi/mpi_check.h"
#include "kolo/comm/mpi.h"

namespace kolo {

// MPI, initialised: by this object, which then also finalises it, or before.
class MpiRuntime {
 public:
  explicit MpiRuntime(ThreadLevel wanted);
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;
  // MPI_Finalize, where this object has initialised MPI. Not so while an exception that arose after
  // construction unwinds the stack: the other ranks don't come to it. Without MPI_Finalize the
  // launcher sees a failed process and ends the job, which is what an exception should lead to.
  ~MpiRuntime();

  [[nodiscard]] ThreadLevel granted() const { return granted_; }
  [[nodiscard]] bool is_owner() const { return is_owner_; }

 private:
  ThreadLevel granted_ = ThreadLevel::single;
  bool is_owner_ = false;
  int exceptions_at_start_;
};

}  // namespace kolo
