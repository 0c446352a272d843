#pragma once

#include <cstdint>
#include <span>

#include "comm/mpi/mpi_check.h"
#include "kolo/comm/data_type.h"

namespace kolo {

// MPI's own collectives for kolo's element types, in calls of at most `largest_count` elements
// (MPI-3 counts are int).
class MpiCollectives {
 public:
  MpiCollectives(MPI_Comm communicator, std::int64_t largest_count);
  MpiCollectives(const MpiCollectives&) = delete;
  MpiCollectives& operator=(const MpiCollectives&) = delete;
  ~MpiCollectives();

  // An average is that of `divisor` ranks: values are divided before they are added.
  void all_reduce(const Buffer& buffer, ReduceOp op, int divisor) const;
  // From partial results, which are where the result goes, or float32 where that is of a 16-bit
  // type. Not for averages.
  void all_reduce_partial(const Buffer& partial, const Buffer& result, ReduceOp op) const;
  void broadcast(const Buffer& buffer, int root) const;
  void all_gather(const ConstBuffer& input, const Buffer& output) const;
  void all_gather_uneven(const ConstBuffer& input, const Buffer& output,
                         std::span<const std::int64_t> counts) const;
  // In the order of ranks. Input and output must not overlap.
  void reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op,
                      int divisor) const;
  // A message for each pair of ranks (more where it is too large for one), a pair at a time: what
  // MPI_Alltoallv does, which can't be used for large counts without asking all ranks for theirs.
  void all_to_all(const ConstBuffer& input, std::span<const std::int64_t> send_counts,
                  const Buffer& output, std::span<const std::int64_t> receive_counts) const;
  void barrier() const;

 private:
  void reduce_by_owners(const ConstBuffer& input, const Buffer& output, ReduceOp op,
                        int divisor) const;
  void reduce_whole(const ConstBuffer& input, const Buffer& output, ReduceOp op, int divisor) const;
  template <typename PartFor>
  void reduce_part(const PartFor& part_for, const Buffer& output, ReduceOp op, int divisor) const;
  void exchange(const ConstBuffer& sent, int to, const Buffer& received, int from) const;
  [[nodiscard]] MPI_Op operation(DataType type, ReduceOp op) const;

  MPI_Comm communicator_;
  std::int64_t largest_count_;
  int rank_ = 0;
  int size_ = 1;
  // Operations of our own for {float64, float32, float16, bfloat16, uint8, int8, int16} x {min, max,
  // sum}: MPI knows no 16-bit floating-point types, its minimum and maximum may lose a NaN, MPICH
  // 4.0 compares unsigned bytes as signed ones, and Open MPI 4.1 adds short integers with vector
  // instructions that stop at the largest value, but for the last few of a buffer.
  MPI_Op own_operations_[7][3];
};

}  // namespace kolo
