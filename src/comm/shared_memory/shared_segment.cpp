#include "comm/shared_memory/shared_segment.h"

#include <cerrno>
#include <new>
#include <random>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kolo/base/checked.h"

namespace kolo {

namespace {

// A file descriptor for as long as it is needed.
class File {
 public:
  explicit File(int number) : number_(number) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] int get() const { return number_; }

 private:
  int number_;
};

std::size_t page_size() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t whole_pages(std::size_t bytes) {
  return checked_add(bytes, page_size() - 1) / page_size() * page_size();
}

// A file with more in it than there is room for ends the process that writes there.
bool has_room(int file, std::size_t bytes) {
  struct statvfs status {};
  return ::fstatvfs(file, &status) == 0 && status.f_bavail >= bytes / status.f_frsize + 1;
}

// A name that no other file has.
std::string new_name() {
  std::random_device device;
  return fmt::format("/kolo-{}-{:08x}{:08x}", ::getpid(), device(), device());
}

}  // namespace

SharedSegment::SharedSegment(int local_rank, const std::vector<std::size_t>& bytes, Room room)
    : local_rank_(local_rank), room_(room), bytes_(bytes), size_(page_size()) {
  for (const std::size_t part : bytes_) {
    begins_.push_back(size_);
    size_ = checked_add(size_, whole_pages(part));
  }
}

SharedSegment::~SharedSegment() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

std::string SharedSegment::create() {
  const auto name = new_name();
  const File file(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) return {};
  const bool is_made = has_room(file.get(), size_) &&
                       ::ftruncate(file.get(), narrow<off_t>(size_)) == 0 &&
                       take_room(file.get(), 0, page_size()) && map(file.get());
  if (!is_made) {
    remove_name(name);
    return {};
  }
  new (memory_) Heading{.users = static_cast<std::uint32_t>(bytes_.size())};
  return name;
}

bool SharedSegment::open(const std::string& name) {
  const File file(::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  return file.get() >= 0 && map(file.get());
}

void SharedSegment::remove_name(const std::string& name) {
  ::shm_unlink(name.c_str());
}

bool SharedSegment::map(int file) {
  const auto own = static_cast<std::size_t>(local_rank_);
  if (room_ == Room::at_once && !take_room(file, begins_[own], bytes_[own])) return false;
  void* const memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return false;
  memory_ = static_cast<std::byte*>(memory);
  return true;
}

bool SharedSegment::take_room(int file, std::size_t begin, std::size_t bytes) const {
  if (bytes == 0) return true;
  int result = EINTR;
  while (result == EINTR)
    result = ::posix_fallocate(file, narrow<off_t>(begin), narrow<off_t>(bytes));
  return result == 0;
}

SharedSegment::Heading& SharedSegment::heading() const {
  return *std::launder(reinterpret_cast<Heading*>(memory_));
}

std::byte* SharedSegment::part(int local_rank) const {
  return memory_ + begins_.at(static_cast<std::size_t>(local_rank));
}

std::size_t SharedSegment::bytes(int local_rank) const {
  return bytes_.at(static_cast<std::size_t>(local_rank));
}

void SharedSegment::release() {
  if (heading().users.fetch_sub(1) != 1) return;
  // Fails only where the system can't: then the room is given back with the last mapping.
  if (size_ > page_size()) ::madvise(memory_ + page_size(), size_ - page_size(), MADV_REMOVE);
}

bool SharedSegment::is_in_use() const {
  return heading().users.load() != 0;
}

}  // namespace kolo
