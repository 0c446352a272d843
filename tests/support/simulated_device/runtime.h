#pragma once

#include <functional>
#include <memory>

#include "kolo/comm/communicator.h"
#include "kolo/comm/device.h"

namespace kolo::testing::simulated {

// The runtime of the simulated devices: streams are threads that do their work late, each piece
// after a random time, so that who forgets to wait for an event reads what is not there yet.
[[nodiscard]] std::shared_ptr<const DeviceRuntime> runtime();

// Work that a stream of theirs does in its turn.
void give(DeviceStream stream, std::function<void()> work);

// The same where the host's memory can't be pinned.
[[nodiscard]] std::shared_ptr<const DeviceRuntime> runtime_without_pinning();

// That of the simulated devices, or of the first GPU, which all ranks share, where GPUs are to be
// tested (support/gpu.h).
[[nodiscard]] std::shared_ptr<const DeviceRuntime> runtime_of_tests();

// A communicator over the same ranks whose collectives of host memory are done by the given one on
// the memory of device 0: values go to the device, the collective is asked for, and they come back.
// So what is tested of the host's collectives is tested of a device's.
[[nodiscard]] Communicator through_device(const Communicator& communicator,
                                          std::shared_ptr<const DeviceRuntime> runtime);

}  // namespace kolo::testing::simulated
