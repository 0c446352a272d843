#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

namespace kolo::testing::simulated {

// A generator that LibTorch takes for the device's own. The default one draws from the CPU's
// default generator, so that at::manual_seed() reaches it in every version of LibTorch.
[[nodiscard]] const at::Generator& default_generator(c10::DeviceIndex index);
[[nodiscard]] at::Generator new_generator(c10::DeviceIndex index);

// The CPU's generator behind one of these; any other as it is.
[[nodiscard]] at::Generator host_generator(const at::Generator& generator);

}  // namespace kolo::testing::simulated
