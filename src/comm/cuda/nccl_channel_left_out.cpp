#include "comm/device/device_channel.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

[[noreturn]] void refuse() {
  throw Error(
      "comm: kolo was built without NCCL; build it where nccl.h and the library are found "
      "(NCCL_ROOT), or use the channel staged");
}

}  // namespace

std::string nccl_version() {
  return {};
}

void log_nccl_start() {}

NcclId make_nccl_id() {
  refuse();
}

std::unique_ptr<DeviceChannel> make_nccl_channel(const Topology& /*topology*/, int /*device*/,
                                                 const NcclId& /*id*/,
                                                 const DeviceOptions& /*options*/,
                                                 std::shared_ptr<void> /*stream*/,
                                                 MakeChannel /*make_rest*/) {
  refuse();
}

}  // namespace kolo
