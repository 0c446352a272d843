#include "comm/mpi/cuda_aware_mpi.h"

#include "comm/mpi/mpi_group.h"
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

// There is no standard way to ask. An MPI that can't be asked is one that does not.
namespace kolo {

bool is_cuda_aware_mpi() {
#if defined(MPIX_CUDA_AWARE_SUPPORT)  // Open MPI
  return MPIX_Query_cuda_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_CUDA)  // MPICH and its like
  int is_aware = 0;
  return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is_aware) == MPI_SUCCESS && is_aware != 0;
#else
  return false;
#endif
}

}  // namespace kolo
