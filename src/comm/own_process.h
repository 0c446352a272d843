#pragma once

#include <cstddef>

#include <sys/mman.h>
#include <unistd.h>

namespace kolo {

// The process that has made this object. A fork of it has a copy of all its memory, but none of its
// threads, and shares with it what others see: mapped memory, and files. So code that waits for a
// thread, or tells others something, asks first whether this is still that process.
class OwnProcess {
 public:
  OwnProcess() {
    void* const page =
        ::mmap(nullptr, mark_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (::madvise(page, mark_bytes, MADV_WIPEONFORK) != 0) {
      ::munmap(page, mark_bytes);
      return;
    }
    page_ = static_cast<char*>(page);
    *page_ = 1;
  }
  OwnProcess(const OwnProcess&) = delete;
  OwnProcess& operator=(const OwnProcess&) = delete;
  ~OwnProcess() {
    if (page_ != nullptr) ::munmap(page_, mark_bytes);
  }

  // False in a fork. Costs reading a byte.
  [[nodiscard]] bool is_here() const {
    return page_ != nullptr ? *page_ != 0 : ::getpid() == process_;
  }

 private:
  static constexpr std::size_t mark_bytes = 1;

  int process_ = ::getpid();
  char* page_ = nullptr;  // that the system fills with zeros in a fork; null: it can't
};

}  // namespace kolo
