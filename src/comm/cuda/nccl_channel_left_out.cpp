#include "comm/device/device_channel.h"

// Where kolo is built without NCCL nobody chooses its channel, as nccl_version() is empty.
namespace kolo {

std::string nccl_version() {
  return {};
}

void log_nccl_start() {}

NcclId make_nccl_id() {
  return {};
}

std::unique_ptr<DeviceChannel> make_nccl_channel(const Topology& /*topology*/, int /*device*/,
                                                 const NcclId& /*id*/,
                                                 const DeviceOptions& /*options*/,
                                                 std::shared_ptr<void> /*stream*/,
                                                 MakeChannel /*make_rest*/) {
  return nullptr;
}

}  // namespace kolo
