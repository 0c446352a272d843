#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

// Attributes of HDF5, of whatever types and shapes: of a file's root, and of the datasets in it.
namespace kolo {

class Hdf5Handle;

// Attributes of a file by name, "redshift" of the root, "Nbody.units" of a dataset: a single value
// or a flat array. One of neither numbers nor text has its kind's name. InputError where it is no
// HDF5.
[[nodiscard]] nlohmann::ordered_json read_hdf5_attributes(const std::filesystem::path& file);

// Gives a new file's root, and its datasets that have the same name in `from`, their attributes
// with types, shapes and bytes as they are. Returns a sentence about those that refer to objects of
// the other file, which have no meaning there; none where all were copied. Error with `what`: the
// library can't copy one. Needs an Hdf5Session.
[[nodiscard]] std::vector<std::string> copy_hdf5_attributes(const std::filesystem::path& from,
                                                            const Hdf5Handle& to,
                                                            const std::string& what);

// A sentence for files that have no place for any, where there are some.
[[nodiscard]] std::vector<std::string> leave_hdf5_attributes(const std::filesystem::path& from);
// The same of what a file holds beside a box.
[[nodiscard]] std::vector<std::string> leave_other_objects(const std::filesystem::path& from);

}  // namespace kolo
