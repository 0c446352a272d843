#pragma once

#include <cstdint>
#include <memory>

#include <c10/core/Device.h>

#include "data/boxes/field_source.h"
#include "kolo/data/augmentation.h"
#include "kolo/data/loader.h"
#include "kolo/data/nbody.h"

namespace kolo {

// InputError unless a box of so many cells an edge fits into as many free bytes of a device.
void require_box_fits(std::int64_t box_size, std::int64_t free_bytes, const c10::Device& device);

// Crops of a box that lies in the device's memory, where it is read first; null for a device
// without kernels.
[[nodiscard]] std::shared_ptr<const DeviceSamples> make_box_samples(const CropRule& rule,
                                                                    const FieldSource& nbody,
                                                                    const FieldSource& hydro,
                                                                    const c10::Device& device);

// Images that a device augments and preprocesses, or loops on the CPU; null for a device without
// kernels.
[[nodiscard]] std::shared_ptr<const DeviceSamples> make_image_samples(
    const AugmentedDataset& images, const c10::Device& device);

}  // namespace kolo
