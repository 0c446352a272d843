#include "nccl_meeting.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "machine.h"

namespace fake_cuda {

struct Meeting::Memory {
  std::atomic<std::uint32_t> arrived;  // of all rounds
  char whereabouts[most_ranks][128];
  char calls[most_ranks][128];
  alignas(64) std::byte data[most_ranks][piece_bytes];
};

Meeting::Meeting(const std::string& name, int rank, int size, const std::string& whereabouts)
    : rank_(rank), size_(size) {
  if (size > most_ranks)
    violation("NCCL is played with " + std::to_string(most_ranks) + " ranks at most");
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Memory)) != 0) violation("no shared memory " + name);
  void* const mapped = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  (void)close(file);
  if (mapped == MAP_FAILED) violation("no shared memory " + name);
  memory_ = static_cast<Memory*>(mapped);  // zeros at first
  std::strncpy(memory_->whereabouts[rank], whereabouts.c_str(),
               sizeof(memory_->whereabouts[rank]) - 1);
  meet();
  if (rank == 0) (void)shm_unlink(name.c_str());
}

Meeting::~Meeting() {
  (void)munmap(memory_, sizeof(Memory));
}

int Meeting::rank_on_same_device() const {
  for (int other = 0; other < size_; ++other)
    if (other != rank_ &&
        std::strcmp(memory_->whereabouts[other], memory_->whereabouts[rank_]) == 0)
      return other;
  return -1;
}

void Meeting::meet() {
  ++memory_->arrived;
  const std::uint32_t all = ++round_ * static_cast<std::uint32_t>(size_);
  for (int tries = 0; memory_->arrived < all; ++tries) {
    if (is_aborted_) throw Aborted();
    if (tries < 100)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void Meeting::compare(const std::string& call) {
  std::strncpy(memory_->calls[rank_], call.c_str(), sizeof(memory_->calls[rank_]) - 1);
  meet();
  for (int other = 0; other < size_; ++other)
    if (std::strcmp(memory_->calls[other], memory_->calls[rank_]) != 0)
      violation("NCCL: rank " + std::to_string(rank_) + " calls " + memory_->calls[rank_] +
                ", rank " + std::to_string(other) + " " + memory_->calls[other]);
  meet();
}

void Meeting::exchange(
    std::span<const std::byte> mine,
    const std::function<void(const std::function<const std::byte*(int)>&)>& see) {
  if (!mine.empty()) std::memcpy(memory_->data[rank_], mine.data(), mine.size());
  meet();
  see([this](int rank) -> const std::byte* { return memory_->data[rank]; });
  meet();
}

}  // namespace fake_cuda
