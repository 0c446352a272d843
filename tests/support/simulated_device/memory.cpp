#include "support/simulated_device/memory.h"

#include <array>
#include <cerrno>
#include <iterator>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kolo/base/error.h"

namespace kolo::testing::simulated {
namespace {

struct Allocation {
  std::size_t bytes = 0;   // asked for
  std::size_t mapped = 0;  // of either mapping: whole pages and a guard page that has no memory
  std::byte* host = nullptr;
  int device = 0;
};

// Allocations of this process, by address.
struct Allocations {
  mutable std::shared_mutex mutex;
  std::map<const std::byte*, Allocation> by_address;
  std::array<std::size_t, kDevices> bytes{};

  // Finds the allocation around a pointer; the caller holds the mutex.
  [[nodiscard]] auto find(const void* pointer) const {
    const auto* address = static_cast<const std::byte*>(pointer);
    auto after = by_address.upper_bound(address);
    if (after == by_address.begin()) return by_address.end();
    const auto before = std::prev(after);
    return address < before->first + before->second.mapped ? before : by_address.end();
  }
};

// Never destroys it, because tensors in static variables are freed after main().
Allocations& allocations() {
  static Allocations* const all = std::make_unique<Allocations>().release();
  return *all;
}

[[noreturn]] void fail(const std::string& what) {
  throw Error("simulated device: " + system_error_text(what, errno));
}

void check_device(int device) {
  if (device >= 0 && device < kDevices) return;
  throw Error("simulated device: there is no device " + std::to_string(device) +
              "; devices are 0 to " + std::to_string(kDevices - 1));
}

std::size_t page_size() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// File in memory; mappings outlive it.
class MemoryFile {
 public:
  explicit MemoryFile(std::size_t bytes)
      : descriptor_(memfd_create("kolo simulated device", MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail("cannot make memory");
    if (ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0) return;
    const int error = errno;
    close(descriptor_);
    errno = error;
    fail("cannot make memory of " + std::to_string(bytes) + " bytes");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] std::size_t bytes() const {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) fail("cannot look at memory");
    return static_cast<std::size_t>(status.st_size);
  }
  [[nodiscard]] std::byte* map(std::size_t bytes, int protection) const {
    void* const address = mmap(nullptr, bytes, protection, MAP_SHARED, descriptor_, 0);
    return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
  }

 private:
  int descriptor_;
};

std::size_t whole_pages(std::size_t bytes) {
  const std::size_t page = page_size();
  return (bytes + page - 1) / page * page;
}

// New pointers to a file, as long as they are; `bytes` of it count as allocated.
std::byte* add(const MemoryFile& file, std::size_t bytes, int device) {
  // Beyond the file's end the page after the last one can be mapped, but not touched: reads and
  // writes of the device behind its memory end in SIGBUS.
  const std::size_t mapped = file.bytes() + page_size();
  std::byte* const address = file.map(mapped, PROT_NONE);
  if (address == nullptr) fail("cannot map " + std::to_string(bytes) + " bytes");
  std::byte* const host = file.map(mapped, PROT_READ | PROT_WRITE);
  if (host == nullptr) {
    const int error = errno;
    munmap(address, mapped);
    errno = error;
    fail("cannot map " + std::to_string(bytes) + " bytes");
  }
  auto& all = allocations();
  const std::unique_lock lock(all.mutex);
  all.by_address.emplace(address, Allocation{bytes, mapped, host, device});
  all.bytes[static_cast<std::size_t>(device)] += bytes;
  return address;
}

}  // namespace

std::byte* allocate(std::size_t bytes, int device) {
  check_device(device);
  return bytes == 0 ? nullptr : add(MemoryFile(whole_pages(bytes)), bytes, device);
}

void release(void* device_pointer) {
  if (device_pointer == nullptr) return;
  auto& all = allocations();
  const std::unique_lock lock(all.mutex);
  const auto found = all.by_address.find(static_cast<const std::byte*>(device_pointer));
  if (found == all.by_address.end()) {
    throw Error("simulated device: released a pointer that allocate() has not returned, or twice");
  }
  const Allocation allocation = found->second;
  all.by_address.erase(found);
  all.bytes[static_cast<std::size_t>(allocation.device)] -= allocation.bytes;
  munmap(device_pointer, allocation.mapped);
  munmap(allocation.host, allocation.mapped);
}

std::byte* host_view(const void* device_pointer) {
  if (device_pointer == nullptr) return nullptr;
  const auto& all = allocations();
  const std::shared_lock lock(all.mutex);
  const auto found = all.find(device_pointer);
  if (found == all.by_address.end()) {
    throw Error(
        "simulated device: a pointer that is no memory of the device was used there; copy to the "
        "device first");
  }
  const auto& [address, allocation] = *found;
  return allocation.host + (static_cast<const std::byte*>(device_pointer) - address);
}

int device_of(const void* pointer) {
  const auto& all = allocations();
  const std::shared_lock lock(all.mutex);
  const auto found = all.find(pointer);
  return found == all.by_address.end() ? -1 : found->second.device;
}

std::size_t allocated_bytes(int device) {
  check_device(device);
  const auto& all = allocations();
  const std::shared_lock lock(all.mutex);
  return all.bytes[static_cast<std::size_t>(device)];
}

}  // namespace kolo::testing::simulated
