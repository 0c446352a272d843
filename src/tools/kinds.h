#pragma once

#include <filesystem>

#include "kolo/tools/inspection.h"

// One function for each kind of file or folder.
namespace kolo {

[[nodiscard]] Inspection inspect_box(const std::filesystem::path& path, bool reads_numbers);
[[nodiscard]] Inspection inspect_npy(const std::filesystem::path& path, bool reads_numbers);
// Arrays with the names that the data set `arrays` takes: inputs, and targets or labels.
[[nodiscard]] Inspection inspect_array_samples(const std::filesystem::path& path,
                                               bool reads_numbers);
// All arrays of a folder of .npy files, or of an HDF5 file; those that can't be read are advice.
[[nodiscard]] Inspection inspect_arrays(const std::filesystem::path& path, bool reads_numbers);
[[nodiscard]] Inspection inspect_image(const std::filesystem::path& path);
[[nodiscard]] Inspection inspect_cifar10_batch(const std::filesystem::path& path);
[[nodiscard]] Inspection inspect_cifar10_folder(const std::filesystem::path& path);
[[nodiscard]] Inspection inspect_image_folder(const std::filesystem::path& path);

}  // namespace kolo
