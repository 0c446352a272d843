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

// Sets the threads of OpenBLAS, if that is the BLAS that is loaded.
void set_blas_threads(int threads);

// The vector units that matter to OpenBLAS's choice.
struct VectorUnits {
  bool avx512 = false;  // F, DQ, BW and VL, as SkylakeX kernels need
  bool avx2 = false;    // and FMA, as Haswell and Zen kernels need
  bool is_amd = false;
};

[[nodiscard]] VectorUnits vector_units_of_this_processor();

// Core that OpenBLAS should be told, because the one it chose has narrower kernels than this
// processor can run: it takes processors newer than itself for much older ones, as Debian 12's a
// Sapphire Rapids for a Prescott, five times slower. Nothing when the choice is good or not known
// to be bad.
[[nodiscard]] std::optional<std::string> better_core(std::string_view chosen,
                                                     const VectorUnits& units);

// Opens closed standard streams on /dev/null, and starts the program again where only the
// environment can tell a library better, at the start of main(): OpenBLAS that takes this processor
// for an older one gets OPENBLAS_CORETYPE (its own choice is left in KOLO_BLAS_CORE_BEFORE); OpenMP
// that has bound this thread to some CPUs gets OMP_PROC_BIND=false, as other threads and ranks
// would share those CPUs (the user's is left in KOLO_OMP_PROC_BIND_BEFORE).
//
// `started_with`: the CPUs as the kernel's set, read before any library began; none: those to which
// OpenMP binds its threads.
void begin_process(char** argv, std::span<const cpu_set_t> started_with = {});

}  // namespace kolo
