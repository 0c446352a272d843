// A library to preload into MPICH's ranks where there are more of them than cores. MPICH waits by
// asking UCX for progress without ever giving its core away, so that the rank it waits for does
// not run before the time slice is over, and a collective of many small messages lasts minutes.
// Here a rank that asked in vain lets another one run. Nothing else changes.
#include <dlfcn.h>
#include <sched.h>

#include <cstdlib>

extern "C" unsigned ucp_worker_progress(void* worker);

unsigned ucp_worker_progress(void* worker) {
  using Progress = unsigned (*)(void*);
  static const auto next = reinterpret_cast<Progress>(dlsym(RTLD_NEXT, "ucp_worker_progress"));
  if (next == nullptr) std::abort();  // called, so there is a UCX; it must come after this library
  const unsigned progressed = next(worker);
  if (progressed == 0) sched_yield();
  return progressed;
}
