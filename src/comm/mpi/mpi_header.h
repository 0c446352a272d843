#pragma once

// MPI's C interface, without the C++ one that MPI-3 removed and some versions still bring.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace kolo {

// Throws Error with MPI's own words when a call did not return MPI_SUCCESS.
void check_mpi(int code, const char* call);

}  // namespace kolo
