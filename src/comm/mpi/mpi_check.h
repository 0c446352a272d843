#pragma once

#include "comm/mpi/mpi_header.h"

namespace kolo {

// Throws Error with MPI's own words when a call did not return MPI_SUCCESS.
void check_mpi(int code, const char* call);

}  // namespace kolo
