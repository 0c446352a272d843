#pragma once

namespace kolo {

// Whether the kernels of this build run on the current device: by one of them, which is not
// started.
[[nodiscard]] bool has_kernels_for_current_device();

}  // namespace kolo
