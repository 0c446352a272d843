#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/mpi/mpi_calls.h"
#include "kolo/comm/collective_call.h"

namespace kolo {

// MPI's own collectives for kolo's element types, in calls of at most `largest_count` elements
// (MPI-3 counts are int).
class MpiCollectives {
 public:
  // `look`: of MpiCalls.
  MpiCollectives(const MpiGroup& group, std::int64_t largest_count, std::function<void()> look);

  // Frees MPI's objects: the last call. MPI keeps them without it.
  void free();

  // Does a collective that has buffers, or a barrier.
  void execute(const CollectiveCall& call);

  // All-reduces partial results, which are in `result` itself, or float32 where that is of a 16-bit
  // type. Not for averages.
  void all_reduce_partial(const Buffer& partial, const Buffer& result, ReduceOp op);

 private:
  void all_reduce(const Buffer& buffer, ReduceOp op, int divisor);
  void broadcast(const Buffer& buffer, int root);
  void all_gather(const ConstBuffer& input, const Buffer& output,
                  std::span<const std::int64_t> counts);
  // Adds up in the order of ranks. Input and output must not overlap.
  void reduce_scatter(const CollectiveCall& call);
  // Sends a message for each pair of ranks (more where it is too large for one), a pair at a time.
  // MPI_Alltoallv can't be used for large counts without asking all ranks for theirs.
  void all_to_all(const CollectiveCall& call);

  void reduce_by_owners(const ConstBuffer& input, const Buffer& output, ReduceOp op, int divisor);
  template <typename PartFor>
  void reduce_part(const PartFor& part_for, const Buffer& output, ReduceOp op, int divisor);
  void exchange(const ConstBuffer& sent, int to, const Buffer& received, int from);
  [[nodiscard]] MPI_Op operation(DataType type, ReduceOp op) const;

  MpiCalls calls_;
  int rank_, size_;
  std::int64_t largest_count_;
  // Operations of kolo's own, by type and ReduceOp, in place of MPI's: 16-bit floating-point types
  // are missing there, minima and maxima may lose a NaN, MPICH 4.0 takes unsigned bytes for signed
  // ones, and Open MPI 4.1 adds short integers with saturation. Sums and products of 32 bits and
  // more are MPI's.
  std::vector<MPI_Op> own_operations_;
};

}  // namespace kolo
