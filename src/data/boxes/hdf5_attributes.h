#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

// Attributes of HDF5, of whatever types and shapes: of a file's root, and of the datasets in it.
namespace kolo {

class Hdf5Handle;

// An attribute as people read it. One of neither numbers nor text has its kind's name as its only
// text.
struct Hdf5Attribute {
  std::string name;        // "redshift" of the root, "Nbody.units" of a dataset
  bool is_single = false;  // otherwise there may be any number of values
  std::variant<std::vector<std::int64_t>, std::vector<std::uint64_t>, std::vector<double>,
               std::vector<std::string>>
      values;
};

// All of a file. InputError where it is no HDF5.
[[nodiscard]] std::vector<Hdf5Attribute> read_hdf5_attributes(const std::filesystem::path& file);

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
