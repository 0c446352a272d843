#pragma once

#include <span>

#include <sched.h>

namespace kolo {

// At the start of main(). Standard streams that are closed are opened on /dev/null, and the program
// is started again where a library was told wrong that is told only by the environment, and only
// when it is loaded:
//
// OpenBLAS takes this processor for an older one (better_core()): with OPENBLAS_CORETYPE. What it
// had chosen is left in KOLO_BLAS_CORE_BEFORE.
//
// OpenMP has bound this thread to some of the CPUs that the process was started with, as
// OMP_PROC_BIND, OMP_PLACES and GOMP_CPU_AFFINITY ask: with OMP_PROC_BIND=false, on all of them.
// The threads that kolo has beside those that compute would share those CPUs, and so would ranks
// that start with the same ones. The user's OMP_PROC_BIND is left in KOLO_OMP_PROC_BIND_BEFORE.
//
// `started_with`: the CPUs as the kernel's set, read before any library began; none: those to which
// OpenMP binds its threads.
void begin_process(char** argv, std::span<const cpu_set_t> started_with = {});

}  // namespace kolo
