#pragma once

#include <gtest/gtest.h>

#include "kolo/comm/mpi.h"

// KOLO_NEEDS_MPI(); begins a test that starts ranks by a launcher of MPI, and skips it in builds
// without MPI.
#define KOLO_NEEDS_MPI() \
  if (::kolo::mpi_library_version().empty()) GTEST_SKIP() << "kolo is built without MPI"
