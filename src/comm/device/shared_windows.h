#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kolo/comm/backend.h"
#include "kolo/comm/device.h"

namespace kolo {

// Device memory of this rank's that other ranks may still read.
struct LentMemory {
  std::shared_ptr<std::byte> memory;
  std::vector<std::shared_ptr<std::byte>> words;  // by rank, what says whether it reads no more

  [[nodiscard]] bool is_returned() const;
};

// Keeps lent memory until it has been returned, at the latest until its own end: ranks let go of a
// communicator when they like, and memory that another one reads must not go before.
class LentMemories {
 public:
  void add(LentMemory lent);

 private:
  std::mutex mutex_;
  std::vector<LentMemory> lent_;
};

// A piece of each rank's device memory that the devices of all ranks reach. The ranks are on one
// node, and share memory on the host too.
class SharedWindows {
 public:
  // Nothing, on all ranks, where one of them can't: `problem` says which, and why. Collective.
  [[nodiscard]] static std::unique_ptr<SharedWindows> make(
      Backend& host, std::shared_ptr<const DeviceRuntime> runtime, int device, std::size_t bytes,
      LentMemories& lent, std::string& problem);

  SharedWindows(LentMemory own, std::vector<std::shared_ptr<std::byte>> all, int rank,
                std::size_t bytes, LentMemories& lent);
  SharedWindows(const SharedWindows&) = delete;
  SharedWindows& operator=(const SharedWindows&) = delete;
  // Not before this rank's device has read for the last time.
  ~SharedWindows();

  [[nodiscard]] std::size_t bytes() const { return bytes_; }  // of each
  // A rank's, as this one's device reaches it.
  [[nodiscard]] std::byte* of(int rank) const { return all_[static_cast<std::size_t>(rank)].get(); }

 private:
  LentMemory own_;
  std::vector<std::shared_ptr<std::byte>> all_;  // by rank; this rank's own too
  int rank_;
  std::size_t bytes_;
  LentMemories& lent_;
};

}  // namespace kolo
