#include "comm/device/device_staging.h"

#include <utility>

#include "kolo/base/error.h"

namespace kolo {

namespace {

class PinnedStaging final : public TransferStaging {
 public:
  PinnedStaging(CollectiveCall& call, DeviceSharing& sharing)
      : runtime_(sharing.runtime()),
        order_(call.order),
        stream_(sharing.transfer_stream(order_->device)),
        bytes_(call.collective == Collective::send ? call.input.bytes() : call.output.bytes()),
        memory_(sharing.pinned().take(runtime_, order_->device, bytes_)),
        destination_(call.output.data) {
    const ConstBuffer host(memory_.get(), call.count, call.type);
    if (call.collective == Collective::send) {
      order_->ready->hold_back(stream_.get());
      runtime_.copy(order_->device, memory_.get(), call.input.data, bytes_, stream_.get());
      copied_ = runtime_.record(order_->device, stream_.get());
      call.input = host;
    } else {
      call.output = Buffer(memory_.get(), call.count, call.type);
    }
  }

  PinnedStaging(const PinnedStaging&) = delete;
  PinnedStaging& operator=(const PinnedStaging&) = delete;
  ~PinnedStaging() override {
    if (!copied_) return;
    try {
      copied_->wait();        // the memory goes to somebody else
    } catch (const Error&) {  // a device that has failed copies nothing any more
    }
  }

  [[nodiscard]] bool is_there() const override { return !copied_ || copied_->is_done(); }

  void take_up() override {
    order_->ready->hold_back(stream_.get());
    runtime_.copy(order_->device, destination_, memory_.get(), bytes_, stream_.get());
    copied_ = runtime_.record(order_->device, stream_.get());
    order_->done = copied_;
  }

  // So it is where the device has failed.
  [[nodiscard]] bool is_over() const override {
    try {
      return is_there();
    } catch (const Error&) {
      return true;
    }
  }

 private:
  const DeviceRuntime& runtime_;
  std::shared_ptr<DeviceOrder> order_;
  std::shared_ptr<void> stream_;
  std::size_t bytes_;
  std::shared_ptr<std::byte> memory_;
  void* destination_;
  std::shared_ptr<const DeviceEvent> copied_;
};

}  // namespace

std::shared_ptr<TransferStaging> stage_transfer(CollectiveCall& call, DeviceSharing& sharing) {
  return std::make_shared<PinnedStaging>(call, sharing);
}

}  // namespace kolo
