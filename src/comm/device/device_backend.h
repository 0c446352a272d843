#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/device/completion_poller.h"
#include "comm/device/device_channel.h"
#include "kolo/comm/backend.h"

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
  [[nodiscard]] CompletionPoller& poller() { return poller_; }

 private:
  DeviceOptions options_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<void>> streams_;
  CompletionPoller poller_;
};

// A back end that takes collectives on devices' memory too: the host's go to the one below, a
// device's to a channel, which is chosen, and made, by the first of them. The ranks tell each other
// then what they have.
class DeviceBackend final : public Backend {
 public:
  DeviceBackend(std::shared_ptr<Backend> host, std::shared_ptr<DeviceSharing> sharing);

  [[nodiscard]] const Topology& topology() const override { return host_->topology(); }
  [[nodiscard]] Capabilities capabilities() const override;
  void execute(const CollectiveCall& call) override;
  void agree(const CallHeader& call) override { host_->agree(call); }
  void begin_on_device(CollectiveCall& call) const override;
  [[nodiscard]] bool hands_over(const CallHeader& call) const override;
  [[nodiscard]] bool follow(const CollectiveCall& call, std::function<void()> started,
                            std::function<void(bool)> finished) override;
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override {
    return host_->allocate(call);
  }
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override;
  [[nodiscard]] std::unique_ptr<StatusExchange> status_exchange() override {
    return host_->status_exchange();
  }
  void leave() noexcept override { host_->leave(); }
  void abort(int exit_code) noexcept override;

 private:
  [[nodiscard]] DeviceChannel* channel() const;
  [[nodiscard]] int own_device() const;
  void make_channel(const CollectiveCall& call);
  void require_one_device(const CollectiveCall& call) const;

  std::shared_ptr<Backend> host_;
  std::shared_ptr<DeviceSharing> sharing_;
  mutable std::mutex
      mutex_;  // of the next two, which others than the one that executes may ask for
  std::unique_ptr<DeviceChannel> channel_;
  int device_ = -1;  // of the channel
};

}  // namespace kolo
