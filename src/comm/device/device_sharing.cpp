#include "comm/device/device_sharing.h"

#include "kolo/base/error.h"

namespace kolo {

const DeviceRuntime& DeviceSharing::runtime() const {
  if (options_.runtime) return *options_.runtime;
  throw Error(
      "comm: a collective was given a device's memory, but kolo was built without CUDA; build it "
      "with KOLO_CUDA=ON on a LibTorch that has CUDA, or copy to the host's memory");
}

std::shared_ptr<void> DeviceSharing::stream(int device) {
  const std::lock_guard lock(mutex_);
  auto& stream = streams_[device];
  if (!stream) stream = runtime().make_stream(device);
  return stream;
}

std::shared_ptr<void> DeviceSharing::transfer_stream(int device) {
  const std::lock_guard lock(mutex_);
  auto& stream = transfer_streams_[device];
  if (!stream) stream = runtime().make_stream(device);
  return stream;
}

void DeviceSharing::note_transport(const std::string& transport) {
  const std::lock_guard lock(mutex_);
  transport_ = transport;
}

std::string DeviceSharing::transport() const {
  const std::lock_guard lock(mutex_);
  return transport_;
}

}  // namespace kolo
