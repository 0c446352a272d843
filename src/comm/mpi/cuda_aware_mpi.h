#pragma once

namespace kolo {

// Whether this MPI says that it takes pointers to the memory of CUDA devices.
[[nodiscard]] bool is_cuda_aware_mpi();

}  // namespace kolo
