#include "comm/shared_memory/futex.h"

#include <cerrno>
#include <climits>
#include <thread>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kolo/base/error.h"

namespace kolo {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  timespec timeout{};
  timeout.tv_sec = seconds.count();
  timeout.tv_nsec = (limit - seconds).count();
  const long result = syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
  if (result != 0 && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT) {
    throw Error(system_error_text("comm: futex wait", errno));
  }
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  if (syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0) < 0) {
    throw Error(system_error_text("comm: futex wake", errno));
  }
}

}  // namespace kolo
