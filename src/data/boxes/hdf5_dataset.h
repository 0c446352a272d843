#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <hdf5.h>

#include "data/boxes/array_file.h"
#include "data/boxes/hdf5_field.h"

namespace kolo {

// A dataset of numbers in an HDF5 file. Functions here need an Hdf5Session.
struct Hdf5Dataset {
  Hdf5Handle handle;
  std::string what;  // "data: cannot read NAME of FILE", for messages
  ArrayLayout layout;
  NumberType type;                      // of the numbers in memory, and the same for HDF5
  hid_t memory_type = H5I_INVALID_HID;  // a type of the library's own, which is not closed
  std::int64_t stored_bytes = 0;
};

// Opens a file to be read. InputError.
[[nodiscard]] Hdf5Handle open_hdf5_file(const std::filesystem::path& path);

// Whether there is something of that name, which may have groups in it ("run/inputs").
[[nodiscard]] bool has_hdf5_link(const Hdf5Handle& file, const std::string& name);

// InputError for a missing one, for links that lead out of the file or nowhere, for what is no
// dataset and for one that holds no numbers.
[[nodiscard]] Hdf5Dataset open_hdf5_dataset(const Hdf5Handle& file,
                                            const std::filesystem::path& path,
                                            const std::string& name);

// InputError unless all numbers are in this file and can be unpacked: filters that the library
// lacks, external storage, virtual datasets, and numbers or chunks that were never written, which
// HDF5 would give as zeros. The shape's product has to be known to fit 64 bits.
void require_hdf5_numbers(const Hdf5Dataset& dataset);

}  // namespace kolo
