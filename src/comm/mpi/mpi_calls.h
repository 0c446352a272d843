#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include <mpi.h>

#include "kolo/base/error.h"

namespace kolo {

// MPI's C interface is included above without the C++ one, which MPI-3 removed and some versions
// still bring.

// A failed call of MPI's.
class MpiError : public Error {
 public:
  using Error::Error;
};

// Throws MpiError with MPI's own words when a call did not return MPI_SUCCESS.
void check_mpi(int code, const char* call);

// Some of the job's ranks: a communicator of kolo's own, with errors returned instead of fatal.
// Copies mean the same. It is freed by MpiKeeping alone, because freeing is collective.
class MpiGroup {
 public:
  MpiGroup() = default;  // of no ranks

  // Makes a communicator of the same ranks in the same order. Unlike MPI_Comm_dup() it leaves the
  // given one's attributes behind, whose copying calls their owner's functions, and hints, which
  // kolo may not keep. Collective.
  [[nodiscard]] static MpiGroup of(MPI_Comm communicator);
  // Ranks with the same colour, in the order of (key, rank); colour < 0: in none (an empty group).
  [[nodiscard]] MpiGroup split(int color, int key = 0) const;
  void free();
  [[nodiscard]] bool is_empty() const { return communicator_ == MPI_COMM_NULL; }

  [[nodiscard]] MPI_Comm get() const { return communicator_; }
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

  // The least of all ranks' values. Collective.
  [[nodiscard]] int least(int mine) const;

 private:
  explicit MpiGroup(MPI_Comm communicator);

  MPI_Comm communicator_ = MPI_COMM_NULL;
};

// MPI's calls in which a rank waits for others. In a session they are non-blocking, so that a wait
// can end before the others come, when the session is broken.
//
// A call that nobody waits for any more can't be taken back, and MPI may use its memory until its
// very end. So in a session calls work on a copy, which is left to MPI then.
class MpiCalls {
 public:
  // `look` throws to end a wait; empty: nothing ends one.
  MpiCalls(const MpiGroup& group, std::function<void()> look)
      : communicator_(group.get()), look_(std::move(look)) {}

  [[nodiscard]] bool can_end_early() const { return look_ != nullptr; }

  // Counts are of elements, as MPI takes them. In place:
  void all_reduce(std::byte* values, int count, MPI_Datatype type, MPI_Op operation);
  void broadcast(std::byte* values, int count, MPI_Datatype type, int root);
  // Every rank's part lies where it belongs in the output.
  void all_gather(std::byte* output, std::span<const int> counts, std::span<const int> starts,
                  MPI_Datatype type);
  struct Message {
    std::byte* values = nullptr;
    int count = 0;  // 0: there is none
    int peer = 0;
  };
  // To one rank and from another.
  void exchange(const Message& sent, const Message& received, MPI_Datatype type);
  void barrier();

 private:
  [[nodiscard]] std::byte* own_memory(std::size_t bytes);
  void look();
  void wait(std::span<MPI_Request> requests);
  template <typename Begin>
  void on_a_copy(std::byte* values, std::size_t bytes, const Begin& begin);

  MPI_Comm communicator_;
  std::function<void()> look_;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace kolo
