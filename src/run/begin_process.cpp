#include "run/begin_process.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

#include "base/openmp.h"
#include "kolo/base/file.h"
#include "kolo/run/launch_ranks.h"
#include "run/launch/child.h"
#include "run/run_device.h"

namespace kolo {

namespace {

std::string call_for_text(const char* function) {
  void* const symbol = find_blas_symbol(function);
  if (symbol == nullptr) return {};
  const char* const text = reinterpret_cast<char* (*)()>(symbol)();
  return text == nullptr ? "" : text;
}

constexpr std::array<std::string_view, 3> avx512_cores = {"SkylakeX", "Cooperlake",
                                                          "SapphireRapids"};
constexpr std::array<std::string_view, 3> avx2_cores = {"Haswell", "Zen", "Excavator"};
// Cores whose kernels use SSE or AVX alone.
constexpr std::array<std::string_view, 15> older_cores = {
    "Katmai",      "Coppermine", "Northwood",    "Prescott",   "Banias",
    "Atom",        "Core2",      "Penryn",       "Dunnington", "Nehalem",
    "Sandybridge", "Opteron",    "Opteron_SSE3", "Barcelona",  "Bobcat"};

}  // namespace

BlasLibrary loaded_blas() {
  BlasLibrary library;
  Dl_info info{};
  void* const product = find_blas_symbol("sgemm_");
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
  if (void* const symbol = find_blas_symbol("openblas_set_num_threads"))
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
  // Zen kernels on AMD's processors are OpenBLAS's choice for speed, not a mistake.
  if (units.avx512 && !units.is_amd) return "SkylakeX";
  if (is_avx2) return std::nullopt;
  if (units.avx2) return units.is_amd ? "Zen" : "Haswell";
  return std::nullopt;
}

namespace {

constexpr const char* core_before_variable = "KOLO_BLAS_CORE_BEFORE";

// Sets the variable for OpenBLAS. Returns whether it was needed.
bool tell_openblas() {
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr || std::getenv(core_before_variable) != nullptr)
    return false;
  const auto chosen = loaded_blas().core;
  const auto core = better_core(chosen, vector_units_of_this_processor());
  if (!core) return false;
  ::setenv("OPENBLAS_CORETYPE", core->c_str(), 1);
  ::setenv(core_before_variable, chosen.c_str(), 1);
  return true;
}

// Puts this thread on all its CPUs again, and sets OMP_PROC_BIND. Returns whether it was needed.
bool tell_openmp(std::span<const cpu_set_t> started_with) {
  std::vector<cpu_set_t> now(started_with.size());
  if (now.empty() || ::sched_getaffinity(0, started_with.size_bytes(), now.data()) != 0 ||
      std::memcmp(now.data(), started_with.data(), started_with.size_bytes()) == 0)
    return false;
  ::sched_setaffinity(0, started_with.size_bytes(), started_with.data());
  if (std::getenv(openmp_binding_before) != nullptr) return false;
  const char* const before = std::getenv("OMP_PROC_BIND");
  ::setenv(openmp_binding_before, before == nullptr ? "" : before, 1);
  ::setenv("OMP_PROC_BIND", "false", 1);
  return true;
}

}  // namespace

void begin_process(char** argv, std::span<const cpu_set_t> started_with) {
  open_standard_streams();
  const auto places = cpu_set_of(openmp_cpus());
  const bool of_openblas = tell_openblas();
  const bool of_openmp = tell_openmp(started_with.empty() ? places : started_with);
  // A failure only leaves the program slower.
  if (of_openblas || of_openmp) ::execv("/proc/self/exe", argv);
}

}  // namespace kolo
