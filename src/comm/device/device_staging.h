#pragma once

#include <memory>

#include "comm/device/device_sharing.h"
#include "comm/transfers/transfer_staging.h"
#include "kolo/comm/collective_call.h"

namespace kolo {

// Pinned memory in the place of the buffer of a transfer, whose order is set. What is sent comes
// down in a stream for transfers alone, which never waits for a collective.
[[nodiscard]] std::shared_ptr<TransferStaging> stage_transfer(CollectiveCall& call,
                                                              DeviceSharing& sharing);

}  // namespace kolo
