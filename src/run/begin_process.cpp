#include "run/begin_process.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <unistd.h>

#include "base/openmp.h"
#include "base/standard_streams.h"
#include "kolo/run/launch_environment.h"
#include "run/blas.h"

namespace kolo {

namespace {

constexpr const char* core_before_variable = "KOLO_BLAS_CORE_BEFORE";

// True: OpenBLAS is told now.
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

std::vector<cpu_set_t> places_of_openmp() {
  std::vector<cpu_set_t> set;
  for (const int cpu : openmp_cpus()) {
    const auto place = static_cast<std::size_t>(cpu);
    if (place / CPU_SETSIZE >= set.size()) set.resize(place / CPU_SETSIZE + 1);
    CPU_SET_S(place, set.size() * sizeof(cpu_set_t), set.data());
  }
  return set;
}

// This thread is on all CPUs again. True: it was not, and OpenMP is told now not to bind it.
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
  const auto places = places_of_openmp();
  const bool of_openblas = tell_openblas();
  const bool of_openmp = tell_openmp(started_with.empty() ? places : started_with);
  // Should it fail, the program works as it is, only slower.
  if (of_openblas || of_openmp) ::execv("/proc/self/exe", argv);
}

}  // namespace kolo
