#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kolo/data/array_samples.h"

namespace kolo {

// Arrays by name: NAME.npy or the files of the folder NAME in a folder, or the datasets of an HDF5
// file.
class ArrayCollection {
 public:
  // InputError for what is neither, which says what it is.
  explicit ArrayCollection(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] bool is_folder() const { return is_folder_; }
  // In natural order; of HDF5 also what will turn out to be no array.
  [[nodiscard]] std::vector<std::string> names() const;
  // InputError for what is no array of numbers, and for both a file and a folder of that name.
  [[nodiscard]] NamedArray find(const std::string& name) const;

 private:
  [[nodiscard]] NamedArray find_npy(const std::string& name) const;

  std::filesystem::path path_;
  bool is_folder_ = false;
};

}  // namespace kolo
