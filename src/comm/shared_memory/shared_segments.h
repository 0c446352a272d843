#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "comm/gather.h"
#include "comm/shared_memory/node_group.h"
#include "kolo/base/file.h"

namespace kolo {

// Memory that the ranks of a node map, with an area for each. It is an anonymous file
// (memfd_create), which the others open through the maker's descriptor in /proc: it goes with its
// last mapping, however the processes end, whatever the size of /dev/shm. Where a rank can't reach
// the other's /proc, as in containers that share no processes, it is a file in /dev/shm that loses
// its name as soon as all have mapped it.
class SharedSegment {
 public:
  enum class Source : std::uint8_t { anonymous, dev_shm };

  // Address at which the others find a segment, as long as this object lives.
  struct Offer {
    std::string address;         // for open(), in another process; empty: there is no segment
    FileDescriptor file;         // kept open for others to open
    std::shared_ptr<void> name;  // in /dev/shm, which is removed with this
  };

  // Time at which an area takes its room: at once, near the rank that owns it, or page by page,
  // near the rank that first writes one.
  enum class Room : std::uint8_t { at_once, when_written };

  // `bytes`: of each area, by local rank.
  SharedSegment(int local_rank, const std::vector<std::size_t>& bytes, Room room);
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  // Makes and maps it; an offer without an address where there is no room.
  [[nodiscard]] Offer create(Source source);
  // Maps a segment of another process. Returns false where this one can't reach it, or there is no
  // room.
  [[nodiscard]] bool open(const std::string& address);

  // Zero-filled, at the beginning of a page.
  [[nodiscard]] std::byte* area(int local_rank) const {
    return memory_ + begins_.at(static_cast<std::size_t>(local_rank));
  }
  [[nodiscard]] std::size_t bytes(int local_rank) const {
    return bytes_.at(static_cast<std::size_t>(local_rank));
  }

  // Ends this rank's use of the memory. Its room is given back when no rank of the node uses it any
  // more; the addresses stay mapped as long as this object lives.
  void release();
  [[nodiscard]] bool is_in_use() const { return heading().users.load() != 0; }

 private:
  struct Heading {
    std::atomic<std::uint32_t> users;
  };

  [[nodiscard]] bool map(int file);
  [[nodiscard]] bool take_room(int file, std::size_t begin, std::size_t bytes) const;
  [[nodiscard]] Heading& heading() const {
    return *std::launder(reinterpret_cast<Heading*>(memory_));
  }

  int local_rank_;
  Room room_;
  std::vector<std::size_t> bytes_;
  std::vector<std::size_t> begins_;  // of the areas, after the heading
  std::size_t size_ = 0;             // of all of it
  std::byte* memory_ = nullptr;
};

// Ranks, of several nodes or sets, that make segments at the same time. All of them get memory or
// none, since private memory on one rank would make the ranks take different paths.
struct SegmentMakers {
  int ranks = 0;
  int first = 0;  // makes the segment that this rank maps
  Execute execute;
};

// Shared memory of a node's ranks, in segments that all of them map. Making one is collective,
// letting go of one is not: its room is given back when no rank uses it any more, and its mapping
// when the next one is made.
class SharedSegments final : public PeerMemory {
 public:
  explicit SharedSegments(int local_rank) : local_rank_(local_rank) {}

  // A new segment with so many bytes of each rank's own, by local rank; nothing, on all ranks,
  // where one of them can't have it. Collective over the makers.
  [[nodiscard]] std::shared_ptr<SharedSegment> add(const std::vector<std::size_t>& bytes,
                                                   SharedSegment::Room room,
                                                   const SegmentMakers& makers);

  // Takes part in making others' segments. Returns whether they have them.
  [[nodiscard]] static bool watch_others(const SegmentMakers& makers);

  // Memory in a segment, which this rank uses until the last of such is gone.
  [[nodiscard]] static std::shared_ptr<void> use_of(std::shared_ptr<SharedSegment> segment);

  [[nodiscard]] std::optional<SharedLocation> locate(const void* data,
                                                     std::size_t bytes) const override;
  [[nodiscard]] std::byte* address(int local_rank, SharedLocation location) const override;

 private:
  struct Numbered {
    std::uint64_t number = 0;  // the same on all ranks of the node
    std::shared_ptr<SharedSegment> segment;
  };

  [[nodiscard]] std::shared_ptr<SharedSegment> make(const std::vector<std::size_t>& bytes,
                                                    SharedSegment::Room room,
                                                    const SegmentMakers& makers,
                                                    SharedSegment::Source source) const;
  void forget_unused();

  int local_rank_;
  std::uint64_t made_ = 0;
  mutable std::mutex mutex_;  // of the list
  std::vector<Numbered> segments_;
};

}  // namespace kolo
