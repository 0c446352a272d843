#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kolo/comm/backend.h"
#include "kolo/comm/collective_call.h"
#include "kolo/comm/device.h"

namespace kolo {

// Pinned memory of the host. Making it takes long, so what comes back is given out again.
class PinnedMemories {
 public:
  // Memory of at least `bytes`, pinned for `device`; comes back by itself.
  [[nodiscard]] std::shared_ptr<std::byte> take(const DeviceRuntime& runtime, int device,
                                                std::size_t bytes);

 private:
  struct Piece {
    std::size_t bytes = 0;
    std::shared_ptr<std::byte> memory;
  };
  struct Free {
    std::mutex mutex;
    std::vector<Piece> pieces;
  };

  std::shared_ptr<Free> free_ = std::make_shared<Free>();
};

// Tells, on a thread of its own, when a device has come to its collectives, which a stream does in
// order. While any are pending it asks the device a thousand times a second; the thread starts with
// the first.
class CompletionPoller {
 public:
  CompletionPoller();
  // May run on the poller's own thread: a followed collective may own the last reference to this.
  ~CompletionPoller() { stop(); }

  // Ends its thread. Pending collectives, and later ones, are forgotten.
  void stop();

  // `started` is called when all before it are done and `ready` has come (null: at once),
  // `finished` after `done`; true: the device has failed.
  void add(std::shared_ptr<const DeviceEvent> ready, std::shared_ptr<const DeviceEvent> done,
           std::function<void()> started, std::function<void(bool failed)> finished);

 private:
  struct State;

  std::shared_ptr<State> state_;
  std::thread thread_;
};

// Device resources that a job's groups share in this process. All of them use one stream per
// device, so that collectives of several groups come to the devices in one order, the same on all
// ranks, and never wait for each other in a circle.
class DeviceSharing {
 public:
  explicit DeviceSharing(DeviceOptions options) : options_(std::move(options)) {
    if (!options_.runtime) options_.runtime = cuda_runtime();
  }

  [[nodiscard]] const DeviceOptions& options() const { return options_; }
  [[nodiscard]] const DeviceRuntime& runtime() const;  // Error where there is none
  // Transfers have a stream of their own: work in the collectives' may wait for other ranks.
  [[nodiscard]] std::shared_ptr<void> stream(int device, bool is_for_transfers = false);
  [[nodiscard]] PinnedMemories& pinned() { return pinned_; }
  [[nodiscard]] CompletionPoller& poller() { return poller_; }
  // Transport of a group's collectives; the last group's is kept.
  void note_transport(const std::string& transport);
  [[nodiscard]] std::string transport() const;

 private:
  DeviceOptions options_;
  mutable std::mutex mutex_;
  std::string transport_;
  std::map<std::pair<int, bool>, std::shared_ptr<void>> streams_;
  PinnedMemories pinned_;
  CompletionPoller poller_;
};

// A back end that takes collectives on devices' memory too: `host` does the host's.
[[nodiscard]] std::shared_ptr<Backend> make_device_backend(std::shared_ptr<Backend> host,
                                                           std::shared_ptr<DeviceSharing> sharing);

// Pinned memory of the host instead of a device's buffer, through which a transfer goes.
// Nothing here blocks; kept until is_over().
class TransferStaging {
 public:
  // Changes the buffer of the call, whose order is set. A sent buffer comes down in a stream for
  // transfers alone, which never waits for a collective.
  TransferStaging(CollectiveCall& call, DeviceSharing& sharing);
  TransferStaging(const TransferStaging&) = delete;
  TransferStaging& operator=(const TransferStaging&) = delete;
  ~TransferStaging();

  // Tells whether the sent buffer has come down from the device.
  [[nodiscard]] bool is_there() const { return !copied_ || copied_->is_done(); }
  // Has the device take the received bytes, and sets the call's order->done.
  void take_up();
  // Tells whether the device is done with the host's memory, or has failed.
  [[nodiscard]] bool is_over() const;

 private:
  const DeviceRuntime& runtime_;
  std::shared_ptr<DeviceOrder> order_;
  std::shared_ptr<void> stream_;
  std::size_t bytes_;
  std::shared_ptr<std::byte> memory_;
  void* destination_;
  std::shared_ptr<const DeviceEvent> copied_;
};

}  // namespace kolo
