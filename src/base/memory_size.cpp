#include "kolo/base/memory_size.h"

#include <unistd.h>

namespace kolo {

std::optional<std::int64_t> installed_memory() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return std::nullopt;
  return std::int64_t{pages} * page;
}

}  // namespace kolo
