#include "base/openmp.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "kolo/base/error.h"

// Weak: a program may have no OpenMP.
extern "C" {
int omp_get_dynamic() __attribute__((weak));
void omp_set_dynamic(int) __attribute__((weak));
int omp_get_max_active_levels() __attribute__((weak));
void omp_set_max_active_levels(int) __attribute__((weak));
int omp_get_thread_limit() __attribute__((weak));
int omp_get_max_threads() __attribute__((weak));
void omp_set_num_threads(int) __attribute__((weak));
int omp_get_num_places() __attribute__((weak));
int omp_get_place_num_procs(int) __attribute__((weak));
void omp_get_place_proc_ids(int, int*) __attribute__((weak));
}

namespace kolo {

std::optional<int> openmp_threads_in(const std::string& text) {
  const char* const blanks = " \t\n";
  if (text.find_first_not_of(blanks) == std::string::npos) return std::nullopt;
  char* end = nullptr;
  const long threads = std::strtol(text.c_str(), &end, 10);  // an end of long where it is beyond
  end += std::strspn(end, blanks);
  const bool is_number = *end == '\0' || *end == ',';
  if (is_number && threads >= 1 && threads <= most_openmp_threads) return static_cast<int>(threads);
  throw InputError("the environment variable OMP_NUM_THREADS is \"" + text +
                   "\"; expected threads of one process, from 1 to " +
                   std::to_string(most_openmp_threads) +
                   ", or a list that begins with them; correct or unset it");
}

std::optional<int> openmp_threads_wanted() {
  const char* const text = std::getenv("OMP_NUM_THREADS");
  return openmp_threads_in(text == nullptr ? "" : text);
}

int openmp_threads() {
  return omp_get_max_threads != nullptr ? omp_get_max_threads() : 0;
}

void set_openmp_threads(int threads) {
  if (omp_set_num_threads != nullptr) omp_set_num_threads(threads);
}

int openmp_thread_limit() {
  const int limit = omp_get_thread_limit != nullptr ? omp_get_thread_limit() : 0;
  return limit > 0 ? limit : std::numeric_limits<int>::max();
}

std::vector<int> openmp_cpus() {
  std::vector<int> cpus;
  if (omp_get_num_places == nullptr || omp_get_place_num_procs == nullptr ||
      omp_get_place_proc_ids == nullptr)
    return cpus;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    const auto before = cpus.size();
    cpus.resize(before + static_cast<std::size_t>(std::max(0, omp_get_place_num_procs(place))));
    omp_get_place_proc_ids(place, cpus.data() + before);
  }
  std::ranges::sort(cpus);
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

PromisedThreads::PromisedThreads() {
  if (omp_get_dynamic != nullptr) dynamic_ = omp_get_dynamic();
  if (omp_get_max_active_levels != nullptr) levels_ = omp_get_max_active_levels();
  promise_threads();
}

PromisedThreads::~PromisedThreads() {
  if (dynamic_ != 0 && omp_set_dynamic != nullptr) omp_set_dynamic(dynamic_);
  if (levels_ < 1 && omp_set_max_active_levels != nullptr) omp_set_max_active_levels(levels_);
}

void promise_threads() {
  if (omp_set_dynamic != nullptr) omp_set_dynamic(0);
  if (omp_get_max_active_levels != nullptr && omp_set_max_active_levels != nullptr &&
      omp_get_max_active_levels() < 1)
    omp_set_max_active_levels(1);
}

// LibTorch loads BLAS as libblas.so.3, which Debian's alternatives point to OpenBLAS.
void* find_blas_symbol(const char* name) {
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

int openblas_threads() {
  void* const symbol = find_blas_symbol("openblas_get_num_threads");
  return symbol == nullptr ? 0 : reinterpret_cast<int (*)()>(symbol)();
}

}  // namespace kolo
