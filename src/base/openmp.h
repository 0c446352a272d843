#pragma once

#include <optional>
#include <string>
#include <vector>

// The OpenMP runtime of this process, which LibTorch brings along, and its environment variables.
// All of it works without a runtime, and then does nothing.
namespace kolo {

// A process doesn't start more.
inline constexpr int most_openmp_threads = 1024;

// The number of threads that a value of OMP_NUM_THREADS asks for, a number or a list of them, of
// which the first one counts; none where it is blank. InputError: anything else, and more than a
// process starts.
[[nodiscard]] std::optional<int> openmp_threads_in(const std::string& text);
// Reads this process's environment; none where it is not set, and OpenMP goes by the CPUs.
[[nodiscard]] std::optional<int> openmp_threads_wanted();

// Threads of the calling thread's next parallel region (omp_get_max_threads()); 0: no OpenMP.
[[nodiscard]] int openmp_threads();
// Sets them.
void set_openmp_threads(int threads);

// The most that OMP_THREAD_LIMIT allows at once.
[[nodiscard]] int openmp_thread_limit();

// All CPUs that OpenMP binds threads to (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY), ascending.
// The thread that has loaded it may be bound to the first of them since, and then the kernel tells
// of that one alone. Empty: it binds none.
[[nodiscard]] std::vector<int> openmp_cpus();

// While it lives, parallel regions of this thread get as many threads as OpenMP has promised
// (omp_get_max_threads). oneDNN's kernels share their work out by that number, and with fewer, as
// OMP_DYNAMIC and OMP_MAX_ACTIVE_LEVELS=0 allow, leave parts of it undone or wait for ever.
class PromisedThreads {
 public:
  PromisedThreads();
  PromisedThreads(const PromisedThreads&) = delete;
  PromisedThreads& operator=(const PromisedThreads&) = delete;
  ~PromisedThreads();

 private:
  int dynamic_ = 0, levels_ = 1;
};

// The same for good.
void promise_threads();

// A function of the loaded BLAS; null where it has none of that name.
[[nodiscard]] void* find_blas_symbol(const char* name);

// Threads of OpenBLAS, the calling one included, which it starts when it is loaded; 0 for another
// BLAS.
[[nodiscard]] int openblas_threads();

}  // namespace kolo
