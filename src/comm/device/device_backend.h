#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/device/device_channel.h"
#include "comm/device/device_sharing.h"
#include "kolo/comm/backend.h"

namespace kolo {

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
  void await_input(const CollectiveCall& call) const override;
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
  [[nodiscard]] std::shared_ptr<TransferDesk> transfers() override { return host_->transfers(); }
  [[nodiscard]] std::shared_ptr<TransferStaging> stage(CollectiveCall& call) const override;
  void leave() noexcept override { host_->leave(); }
  void abort(int exit_code, std::string_view reason) noexcept override;
  [[nodiscard]] bool ends_processes() const override { return host_->ends_processes(); }
  [[nodiscard]] bool is_broken() const override { return host_->is_broken(); }

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
