#include "kolo/base/allocator.h"

#include <climits>

#include <malloc.h>

namespace kolo {

void keep_freed_memory() {
#if defined(__GLIBC__)
  // Refusals are harmless: the allocator then works as it always does.
  mallopt(M_MMAP_THRESHOLD, INT_MAX);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

void release_freed_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace kolo
