#include "base/standard_streams.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace kolo {

void open_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free is this one: those below are open by now.
    if (::open("/dev/null", O_RDWR) < 0) return;  // nothing there either: it stays closed
  }
}

}  // namespace kolo
