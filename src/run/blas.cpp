#include "run/blas.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <dlfcn.h>

#include "run/run_device.h"

namespace kolo {

namespace {

// LibTorch loads BLAS as libblas.so.3, which Debian's alternatives point to OpenBLAS.
void* find_symbol(const char* name) {
  if (void* const symbol = ::dlsym(RTLD_DEFAULT, name)) return symbol;
  for (const char* const library : {"libopenblas.so.0", "libblas.so.3"}) {
    void* const handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    void* const symbol = ::dlsym(handle, name);
    ::dlclose(handle);  // it stays loaded: it was before
    if (symbol != nullptr) return symbol;
  }
  return nullptr;
}

std::string call_for_text(const char* function) {
  void* const symbol = find_symbol(function);
  if (symbol == nullptr) return {};
  const char* const text = reinterpret_cast<char* (*)()>(symbol)();
  return text == nullptr ? "" : text;
}

constexpr std::array<std::string_view, 3> avx512_cores = {"SkylakeX", "Cooperlake",
                                                          "SapphireRapids"};
constexpr std::array<std::string_view, 3> avx2_cores = {"Haswell", "Zen", "Excavator"};
// Kernels for SSE or AVX alone.
constexpr std::array<std::string_view, 15> older_cores = {
    "Katmai",      "Coppermine", "Northwood",    "Prescott",   "Banias",
    "Atom",        "Core2",      "Penryn",       "Dunnington", "Nehalem",
    "Sandybridge", "Opteron",    "Opteron_SSE3", "Barcelona",  "Bobcat"};

}  // namespace

BlasLibrary loaded_blas() {
  BlasLibrary library;
  Dl_info info{};
  void* const product = find_symbol("sgemm_");
  if (product != nullptr && ::dladdr(product, &info) != 0 && info.dli_fname != nullptr) {
    std::error_code error;
    const auto whole = std::filesystem::canonical(info.dli_fname, error);
    library.path = error ? info.dli_fname : whole.string();
  }
  library.is_mkl = libtorch_facts().has_mkl;
  library.core = call_for_text("openblas_get_corename");
  library.version = call_for_text("openblas_get_config");
  return library;
}

void set_blas_threads(int threads) {
  if (void* const symbol = find_symbol("openblas_set_num_threads"))
    reinterpret_cast<void (*)(int)>(symbol)(threads);
}

VectorUnits vector_units_of_this_processor() {
  VectorUnits units;
#if defined(__x86_64__)
  __builtin_cpu_init();
  units.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  units.avx512 = units.avx2 && __builtin_cpu_supports("avx512f") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl");
  units.is_amd = __builtin_cpu_is("amd");
#endif
  return units;
}

std::optional<std::string> better_core(std::string_view chosen, const VectorUnits& units) {
  if (chosen.empty() || std::ranges::count(avx512_cores, chosen) > 0) return std::nullopt;
  const bool is_old = std::ranges::count(older_cores, chosen) > 0;
  const bool is_avx2 = std::ranges::count(avx2_cores, chosen) > 0;
  if (!is_old && !is_avx2) return std::nullopt;
  // On AMD's processors OpenBLAS prefers Zen to SkylakeX kernels by itself up to Zen 3, and newer
  // ones it may not know; that is a judgement of speed, not a mistake.
  if (units.avx512 && !units.is_amd) return "SkylakeX";
  if (is_avx2) return std::nullopt;
  if (units.avx2) return units.is_amd ? "Zen" : "Haswell";
  return std::nullopt;
}

}  // namespace kolo
