#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <c10/util/Exception.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/comm/device.h"

namespace kolo {

// Memory in use on a device; nothing for the host and devices that don't tell.
[[nodiscard]] std::optional<DeviceMemoryUse> memory_use(const torch::Device& device);

// The words for a device whose memory is not enough: in which phase, what there is, and what to
// reduce. `problem`: what LibTorch says.
[[nodiscard]] std::string describe_out_of_memory(std::string_view phase,
                                                 const torch::Device& device,
                                                 const std::optional<DeviceMemoryUse>& use,
                                                 std::string_view problem);

// Returns what `work` does. Error with describe_out_of_memory() where the device's memory is not
// enough for it. `phase`: "forward".
template <typename Work>
decltype(auto) in_phase(std::string_view phase, const torch::Device& device, const Work& work) {
  try {
    return work();
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(
        describe_out_of_memory(phase, device, memory_use(device), error.what_without_backtrace()));
  }
}

}  // namespace kolo
