#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <sched.h>

namespace kolo {

// BLAS library that this process has loaded.
struct BlasLibrary {
  std::string path;     // empty: none was found
  std::string version;  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."; empty: not OpenBLAS
  std::string core;     // processor for which OpenBLAS chose its kernels: "Prescott"
  bool is_mkl = false;  // MKL inside LibTorch, as in pip's
  [[nodiscard]] bool is_openblas() const { return !core.empty(); }
};

[[nodiscard]] BlasLibrary loaded_blas();

// Sets the threads of OpenBLAS, if it is loaded.
void set_blas_threads(int threads);

// Vector units that matter to OpenBLAS's choice.
struct VectorUnits {
  bool avx512 = false;  // F, DQ, BW and VL, as SkylakeX kernels need
  bool avx2 = false;    // and FMA, as Haswell and Zen kernels need
  bool is_amd = false;
};

[[nodiscard]] VectorUnits vector_units_of_this_processor();

// Better core for OpenBLAS, which takes processors newer than itself for much older ones: Debian
// 12's takes a Sapphire Rapids for a Prescott, five times slower. Nothing unless the choice is
// known to be bad.
[[nodiscard]] std::optional<std::string> better_core(std::string_view chosen,
                                                     const VectorUnits& units);

// Opens closed standard streams on /dev/null at the start of main(), and starts the program again
// where only the environment can correct a library: OPENBLAS_CORETYPE for OpenBLAS that takes this
// processor for an older one (its choice is kept in KOLO_BLAS_CORE_BEFORE); OMP_PROC_BIND=false for
// OpenMP that has bound this thread to CPUs, which other threads and ranks would share (the user's
// is kept in KOLO_OMP_PROC_BIND_BEFORE).
//
// `started_with`: CPUs of the process before any library began; none: those to which OpenMP binds
// its threads.
void begin_process(char** argv, std::span<const cpu_set_t> started_with = {});

}  // namespace kolo
