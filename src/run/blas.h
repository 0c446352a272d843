#pragma once

#include <optional>
#include <string>
#include <string_view>

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

}  // namespace kolo
