#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "kolo/data/augmentation.h"
#include "kolo/data/device_samples.h"

namespace kolo {

// A dataset's images, augmented and preprocessed by a device, or by loops on the CPU; null for a
// device without kernels.
[[nodiscard]] std::shared_ptr<const DeviceSamples> make_image_samples(
    std::shared_ptr<const Dataset> source, const Augmentation& augmentation,
    const Preprocessing& preprocessing, const c10::Device& device);

}  // namespace kolo
