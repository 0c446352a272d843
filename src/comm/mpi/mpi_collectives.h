#pragma once

#include <cstdint>

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

  // Averages divide by `divisor` after the sum.
  void all_reduce(const Buffer& buffer, ReduceOp op, int divisor) const;
  void broadcast(const Buffer& buffer, int root) const;
  void all_gather(const ConstBuffer& input, const Buffer& output) const;
  void reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op) const;
  void barrier() const;

 private:
  [[nodiscard]] MPI_Op operation(DataType type, ReduceOp op) const;

  MPI_Comm communicator_;
  std::int64_t largest_count_;
  // Operations of our own for {float64, float32, float16, bfloat16} x {sum, min, max, product}: MPI
  // knows no
  // 16-bit floating-point types, and its minimum and maximum may lose a NaN.
  MPI_Op own_operations_[4][4];
};

}  // namespace kolo
