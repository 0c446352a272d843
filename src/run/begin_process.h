#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <sched.h>

namespace kolo {

// The BLAS that is loaded into this process.
struct BlasLibrary {
  std::string path;     // of the shared library; empty: none was found
  std::string version;  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."; empty: not OpenBLAS
  std::string core;     // for which processor OpenBLAS chose its kernels: "Prescott"
  bool is_mkl = false;  // inside LibTorch, as pip's has it
  [[nodiscard]] bool is_openblas() const { return !core.empty(); }
};

[[nodiscard]] BlasLibrary loaded_blas();

// How many threads OpenBLAS computes a product with, where it is what is loaded.
void set_blas_threads(int threads);

// The vector units that matter to OpenBLAS's choice.
struct VectorUnits {
  bool avx512 = false;  // F, DQ, BW and VL, as SkylakeX kernels need
  bool avx2 = false;    // and FMA, as Haswell and Zen kernels need
  bool is_amd = false;
};

[[nodiscard]] VectorUnits vector_units_of_this_processor();

// The core that OpenBLAS should be told (OPENBLAS_CORETYPE) because the one it chose has narrower
// kernels than this processor can run. It knows processors by their model numbers, and takes ones
// newer than itself for much older ones: Debian 12's (0.3.21) takes a Sapphire Rapids for a
// Prescott, five times slower. Nothing when the choice is good or not known to be bad.
[[nodiscard]] std::optional<std::string> better_core(std::string_view chosen,
                                                     const VectorUnits& units);

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
