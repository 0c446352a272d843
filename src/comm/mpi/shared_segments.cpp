#include "comm/mpi/shared_segments.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <random>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

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
  const FileDescriptor file(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return {};
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
  const FileDescriptor file(::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  return file.is_open() && map(file.get());
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

SegmentName padded(const std::string& name) {
  SegmentName text{};
  std::copy_n(name.begin(), std::min(name.size(), text.size() - 1), text.begin());
  return text;
}

std::string name_in(const SegmentName& text) {
  return {text.begin(), std::find(text.begin(), text.end(), std::uint8_t{0})};
}

namespace {

// The name of a segment's file, which goes with this object.
class Name {
 public:
  explicit Name(std::string text) : text_(std::move(text)) {}
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;
  ~Name() {
    if (!text_.empty()) SharedSegment::remove_name(text_);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

// No rank leaves before the end, whatever it could not do: the others would wait for it.
std::shared_ptr<SharedSegment> SharedSegments::add(const std::vector<std::size_t>& bytes,
                                                   SharedSegment::Room room,
                                                   const Agreement& agreement) {
  forget_unused();
  const bool is_first = local_rank_ == 0;
  auto segment = std::make_shared<SharedSegment>(local_rank_, bytes, room);
  const Name made(is_first ? segment->create() : std::string());
  const auto name = agreement.name_of_first(made.text());
  const bool is_there = !name.empty() && (is_first || segment->open(name));
  const bool is_everywhere = agreement.everywhere(is_there);  // and everybody has opened it
  ++made_;
  if (!is_everywhere) return nullptr;
  const std::lock_guard lock(mutex_);
  segments_.push_back({made_, segment});
  return segment;
}

// Nobody finds memory of his own in a segment that no rank uses, so none will look for others'.
void SharedSegments::forget_unused() {
  const std::lock_guard lock(mutex_);
  std::erase_if(segments_, [](const Numbered& numbered) { return !numbered.segment->is_in_use(); });
}

std::shared_ptr<void> SharedSegments::use_of(std::shared_ptr<SharedSegment> segment) {
  struct Use {
    std::shared_ptr<SharedSegment> segment;
    int process = ::getpid();  // a fork has no share in it
    explicit Use(std::shared_ptr<SharedSegment> used) : segment(std::move(used)) {}
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (::getpid() == process) segment->release();
    }
  };
  return std::make_shared<Use>(std::move(segment));
}

std::optional<SharedLocation> SharedSegments::locate(const void* data, std::size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  for (const auto& [number, segment] : segments_) {
    const std::byte* const own = segment->part(local_rank_);
    if (begin >= own && begin + bytes <= own + segment->bytes(local_rank_))
      return SharedLocation{number, static_cast<std::uint64_t>(begin - own)};
  }
  return std::nullopt;
}

std::byte* SharedSegments::address(int local_rank, SharedLocation location) const {
  std::byte* const found = find(local_rank, location);
  if (!found)
    throw Error("comm: another rank's memory is in a segment that this rank doesn't have");
  return found;
}

std::byte* SharedSegments::find(int local_rank, SharedLocation location) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(segments_.begin(), segments_.end(),
                   [&](const Numbered& numbered) { return numbered.number == location.segment; });
  return found == segments_.end() ? nullptr : found->segment->part(local_rank) + location.offset;
}

}  // namespace kolo
