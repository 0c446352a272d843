#pragma once

#include <memory>

#include "comm/executor.h"
#include "comm/mpi/mpi_check.h"
#include "kolo/comm/mpi.h"

namespace kolo {

// MPI, initialised: by this object, which then also finalises it, or before.
class MpiRuntime {
 public:
  explicit MpiRuntime(ThreadLevel wanted);
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;
  ~MpiRuntime();

  [[nodiscard]] ThreadLevel wanted() const { return wanted_; }
  [[nodiscard]] ThreadLevel granted() const { return granted_; }

  // False while an exception that arose after construction unwinds the stack: the other ranks don't
  // come to collective clean-ups, so there must be none.
  [[nodiscard]] bool is_healthy() const;

 private:
  ThreadLevel wanted_;
  ThreadLevel granted_ = ThreadLevel::single;
  bool is_owner_ = false;
  int exceptions_at_start_;
};

// A duplicate of MPI_COMM_WORLD or part of it, with errors returned instead of fatal.
class MpiGroup {
 public:
  MpiGroup() = default;
  MpiGroup(std::shared_ptr<const MpiRuntime> runtime, MPI_Comm communicator);
  MpiGroup(MpiGroup&& other) noexcept;
  MpiGroup& operator=(MpiGroup&& other) noexcept;
  ~MpiGroup();

  [[nodiscard]] static MpiGroup world(std::shared_ptr<const MpiRuntime> runtime);
  // Ranks with the same colour, in the order of (key, rank); color < 0: in none (an empty group).
  [[nodiscard]] MpiGroup split(int color, int key = 0) const;

  [[nodiscard]] MPI_Comm get() const { return communicator_; }
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

 private:
  std::shared_ptr<const MpiRuntime> runtime_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

}  // namespace kolo
