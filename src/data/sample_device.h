#pragma once

#include <cstdint>
#include <optional>

#include <c10/core/Device.h>

#include "data/sample_kernels.h"

// Which devices make samples by kernels: CUDA's (cuda/sample_device.cpp), and none in a build
// without CUDA (cuda/sample_device_left_out.cpp).
namespace kolo::samples {

// Whether the device has kernels; those below throw Error where it has not.
[[nodiscard]] bool has_kernels(const c10::Device& device);
// Bytes that can be allocated; none where nobody knows.
[[nodiscard]] std::optional<std::int64_t> free_memory(const c10::Device& device);

// In the thread's current stream. The batch lies in the device's memory.
void make_images_on(const c10::Device& device, const ImageBatch& batch);
void make_crops_on(const c10::Device& device, const CropBatch& batch);

}  // namespace kolo::samples
