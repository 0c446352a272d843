#include "kolo/base/own_process.h"

#include <cerrno>
#include <cstddef>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/standard_streams.h"

namespace kolo {

namespace {

constexpr std::size_t bytes_of_mark = 1;

}  // namespace

OwnProcess::OwnProcess() : process_(::getpid()) {
  void* const page =
      ::mmap(nullptr, bytes_of_mark, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, bytes_of_mark, MADV_WIPEONFORK) != 0) {
    ::munmap(page, bytes_of_mark);
    return;
  }
  page_ = static_cast<char*>(page);
  *page_ = 1;
}

OwnProcess::~OwnProcess() {
  if (page_ != nullptr) ::munmap(page_, bytes_of_mark);
}

bool OwnProcess::is_here() const {
  return page_ != nullptr ? *page_ != 0 : ::getpid() == process_;
}

void open_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free is this one: those below are open by now.
    if (::open("/dev/null", O_RDWR) < 0) return;  // nothing there either: it stays closed
  }
}

}  // namespace kolo
