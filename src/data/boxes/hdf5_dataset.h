#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <hdf5.h>

#include "data/boxes/hdf5.h"
#include "kolo/data/array_file.h"

namespace kolo {

// Name of a type of numbers in an HDF5 file, and the type that they are read as.
struct Hdf5Numbers {
  std::string name;
  NumberType type;                      // in memory, and the same for HDF5
  hid_t memory_type = H5I_INVALID_HID;  // a type of the library's own, which is not closed
};

// Finds the numbers of a type; nothing for other types. `what` begins messages. Needs an
// Hdf5Session.
[[nodiscard]] std::optional<Hdf5Numbers> hdf5_numbers_of(hid_t type, const std::string& what);

// Names types that hold no such numbers, for messages: "text".
[[nodiscard]] const char* hdf5_contents_of(H5T_class_t kind);

// An open dataset of numbers.
struct Hdf5Dataset {
  Hdf5Handle handle;
  std::string what;  // "data: cannot read NAME of FILE", for messages
  ArrayLayout layout;
  Hdf5Numbers numbers;
};

// InputError as open_hdf5_array() has it. Needs an Hdf5Session.
[[nodiscard]] Hdf5Dataset open_hdf5_dataset(const Hdf5Handle& file,
                                            const std::filesystem::path& path,
                                            const std::string& name);

}  // namespace kolo
