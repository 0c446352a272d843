#include "comm/device/device_channel.h"

// Stands in for nccl_channel.cpp in builds without NCCL; an empty nccl_version() keeps its channel
// from being chosen.
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
