#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "comm/device/completion_poller.h"
#include "comm/device/pinned_memories.h"
#include "kolo/comm/device.h"

namespace kolo {

// What the groups of a job share of this process's devices. One stream per device for all of them:
// so collectives of several groups come to the devices in one order, the same on all ranks, and
// never wait for each other in a circle.
class DeviceSharing {
 public:
  explicit DeviceSharing(DeviceOptions options) : options_(std::move(options)) {
    if (!options_.runtime) options_.runtime = cuda_runtime();
  }

  [[nodiscard]] const DeviceOptions& options() const { return options_; }
  [[nodiscard]] const DeviceRuntime& runtime() const;  // Error where there is none
  [[nodiscard]] std::shared_ptr<void> stream(int device);
  // Another one, for transfers: what is in stream() may wait for other ranks.
  [[nodiscard]] std::shared_ptr<void> transfer_stream(int device);
  [[nodiscard]] PinnedMemories& pinned() { return pinned_; }
  [[nodiscard]] CompletionPoller& poller() { return poller_; }
  // What a group's collectives go by; of all groups the last.
  void note_transport(const std::string& transport);
  [[nodiscard]] std::string transport() const;

 private:
  DeviceOptions options_;
  mutable std::mutex mutex_;
  std::string transport_;
  std::map<int, std::shared_ptr<void>> streams_, transfer_streams_;
  PinnedMemories pinned_;
  CompletionPoller poller_;
};

}  // namespace kolo
