#include "kolo/observe/memory.h"

#include <cerrno>
#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

std::uint64_t peak_resident_bytes() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0)
    throw Error(system_error_text("memory: getrusage", errno));
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  if (!(file >> size >> resident)) throw Error("memory: /proc/self/statm can't be read");
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace kolo
