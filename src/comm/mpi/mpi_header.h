#pragma once

// MPI's C interface, without the C++ one that MPI-3 removed and some versions still bring.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
