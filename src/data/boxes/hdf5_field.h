#pragma once

#include <filesystem>
#include <string>

#include "data/boxes/field_source.h"
#include "data/boxes/hdf5_library.h"

namespace kolo {

// A dataset of an HDF5 file that has been found to hold a field.
struct Hdf5Field {
  Hdf5Handle dataset;
  BoxFieldLayout layout;
  std::int64_t size = 0;  // cells per edge
};

// Opens "Nbody" or "Hydro" and checks all that section "Simulation boxes" of docs/data.md promises.
// InputError. Needs an Hdf5Session, as do the others here.
[[nodiscard]] Hdf5Field open_hdf5_field(const Hdf5Handle& file, const std::filesystem::path& path,
                                        BoxField field);

// Where the numbers are in the file, if they lie there as they are in memory: one offset for a
// contiguous layout, one a chunk for chunks without filters. Empty otherwise.
[[nodiscard]] std::vector<std::int64_t> find_numbers(const Hdf5Field& field, std::int64_t file_size,
                                                     const std::string& what);

// Reads through the library, one thread at a time.
[[nodiscard]] std::unique_ptr<FieldSource> make_library_source(Hdf5Field field,
                                                               std::int64_t channels);

}  // namespace kolo
