#include "comm/shared_memory/shared_segments.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <random>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

std::size_t page_size() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t whole_pages(std::size_t bytes) {
  return checked_add(bytes, page_size() - 1) / page_size() * page_size();
}

// Tells whether there is room: writing into a file beyond it would end the process.
bool has_room(int file, SharedSegment::Source source, std::size_t bytes) {
  if (source == SharedSegment::Source::anonymous) {
    const auto available = available_memory();
    return !available || static_cast<std::uint64_t>(*available) >= bytes;
  }
  struct statvfs status {};
  return ::fstatvfs(file, &status) == 0 && status.f_bavail >= bytes / status.f_frsize + 1;
}

// A name that no other file has.
std::string new_name() {
  std::random_device device;
  return fmt::format("/kolo-{}-{:08x}{:08x}", ::getpid(), device(), device());
}

std::optional<ino_t> number_of(const FileDescriptor& file) {
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) return std::nullopt;
  return status.st_ino;
}

// "/proc/PID/fd/NUMBER" and the file's own number, because in another container the same process
// and descriptor may be something else.
std::string anonymous_address(const FileDescriptor& file) {
  return fmt::format("/proc/{}/fd/{}#{}", ::getpid(), file.get(), number_of(file).value_or(0));
}

}  // namespace

SharedSegment::SharedSegment(int local_rank, const std::vector<std::size_t>& bytes, Room room)
    : local_rank_(local_rank), room_(room), bytes_(bytes), size_(page_size()) {
  for (const std::size_t area : bytes_) {
    begins_.push_back(size_);
    size_ = checked_add(size_, whole_pages(area));
  }
}

SharedSegment::~SharedSegment() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

SharedSegment::Offer SharedSegment::create(Source source) {
  const bool is_anonymous = source == Source::anonymous;
  const auto name = is_anonymous ? std::string() : new_name();
  FileDescriptor file(is_anonymous
                          ? ::memfd_create("kolo", MFD_CLOEXEC | MFD_ALLOW_SEALING)
                          : ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return {};
  Offer offer{.address = is_anonymous ? anonymous_address(file) : name, .file = std::move(file)};
  if (!is_anonymous) offer.name = {nullptr, [name](void*) { ::shm_unlink(name.c_str()); }};
  const int made = offer.file.get();
  if (!has_room(made, source, size_) || ::ftruncate(made, narrow<off_t>(size_)) != 0 ||
      !take_room(made, 0, page_size()) || !map(made))
    return {};
  // Nobody can take pages away under a mapping; it works as well without.
  if (is_anonymous) (void)::fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  new (memory_) Heading{.users = static_cast<std::uint32_t>(bytes_.size())};
  return offer;
}

bool SharedSegment::open(const std::string& address) {
  const auto mark = address.find('#');
  const auto path = address.substr(0, mark);
  const FileDescriptor file(mark == address.npos ? ::shm_open(path.c_str(), O_RDWR | O_CLOEXEC, 0)
                                                 : ::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const bool is_the_one =
      mark == address.npos || number_of(file) == parse_number<ino_t>(address.substr(mark + 1));
  return file.is_open() && is_the_one && map(file.get());
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

void SharedSegment::release() {
  if (heading().users.fetch_sub(1) != 1) return;
  // Fails only where the system can't: then the room is given back with the last mapping.
  if (size_ > page_size()) ::madvise(memory_ + page_size(), size_ - page_size(), MADV_REMOVE);
}

namespace {

constexpr std::array segment_sources = {SharedSegment::Source::anonymous,
                                        SharedSegment::Source::dev_shm};

// The address that this rank's maker passes, which all ranks tell each other with zeros after it.
std::string address_of_first(const std::string& own, const SegmentMakers& makers) {
  std::array<std::uint8_t, 80> mine{};
  std::copy_n(own.begin(), std::min(own.size(), mine.size() - 1), mine.begin());
  const auto all = gather(makers.ranks, std::span<const std::uint8_t>(mine), makers.execute);
  const auto begin = all.begin() + makers.first * std::ssize(mine);
  return {begin, std::find(begin, begin + std::ssize(mine), std::uint8_t{0})};
}

}  // namespace

// No rank leaves before the end, whatever it could not do: the others would wait for it.
std::shared_ptr<SharedSegment> SharedSegments::make(const std::vector<std::size_t>& bytes,
                                                    SharedSegment::Room room,
                                                    const SegmentMakers& makers,
                                                    SharedSegment::Source source) const {
  const bool is_first = local_rank_ == 0;
  auto segment = std::make_shared<SharedSegment>(local_rank_, bytes, room);
  const auto made = is_first ? segment->create(source) : SharedSegment::Offer();
  const auto address = address_of_first(made.address, makers);
  const bool is_there = !address.empty() && (is_first || segment->open(address));
  // Afterwards everybody has opened it.
  return is_everywhere(is_there, makers.execute) ? segment : nullptr;
}

std::shared_ptr<SharedSegment> SharedSegments::add(const std::vector<std::size_t>& bytes,
                                                   SharedSegment::Room room,
                                                   const SegmentMakers& makers) {
  forget_unused();
  std::shared_ptr<SharedSegment> segment;
  for (const auto source : segment_sources) {
    if (!segment) segment = make(bytes, room, makers, source);
  }
  ++made_;
  if (!segment) return nullptr;
  const std::lock_guard lock(mutex_);
  segments_.push_back({made_, segment});
  return segment;
}

bool SharedSegments::watch_others(const SegmentMakers& makers) {
  return std::ranges::any_of(segment_sources, [&](SharedSegment::Source) {
    (void)address_of_first({}, makers);
    return is_everywhere(true, makers.execute);
  });
}

// No rank looks for memory in a segment that none uses.
void SharedSegments::forget_unused() {
  const std::lock_guard lock(mutex_);
  std::erase_if(segments_, [](const Numbered& numbered) { return !numbered.segment->is_in_use(); });
}

std::shared_ptr<void> SharedSegments::use_of(std::shared_ptr<SharedSegment> segment) {
  // A fork is no user of it.
  return {nullptr, [segment = std::move(segment), process = ::getpid()](void*) {
            if (::getpid() == process) segment->release();
          }};
}

std::optional<SharedLocation> SharedSegments::locate(const void* data, std::size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  for (const auto& [number, segment] : segments_) {
    const std::byte* const own = segment->area(local_rank_);
    if (begin >= own && begin + bytes <= own + segment->bytes(local_rank_))
      return SharedLocation{number, static_cast<std::uint64_t>(begin - own)};
  }
  return std::nullopt;
}

std::byte* SharedSegments::address(int local_rank, SharedLocation location) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(segments_, location.segment, &Numbered::number);
  if (found == segments_.end())
    throw Error("comm: another rank's memory is in a segment that this rank doesn't have");
  return found->segment->area(local_rank) + location.offset;
}

}  // namespace kolo
