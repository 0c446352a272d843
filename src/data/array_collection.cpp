#include "kolo/data/array_samples.h"

#include <algorithm>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/file_kind.h"
#include "kolo/base/text.h"
#include "kolo/data/array_file.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// Lists a folder, without hidden entries.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (!entry->path().filename().native().starts_with('.')) entries.push_back(*entry);
  if (error) {
    throw InputError(
        fmt::format("data: cannot look into {}: {}", folder.string(), error.message()));
  }
  return entries;
}

bool is_npy_name(const fs::directory_entry& entry) {
  return entry.path().extension() == ".npy";
}

bool is_folder_of_npy(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored) && std::ranges::any_of(entries_of(entry), is_npy_name);
}

void list_rows(const fs::path& folder, NamedArray& array) {
  for (const auto& entry : entries_of(folder)) {
    const auto name = entry.path().filename();
    if (is_npy_name(entry))
      array.row_names.push_back(name.stem().native());
    else
      array.left_out.push_back(name.native());
  }
  std::ranges::sort(array.row_names, comes_before);
  std::ranges::sort(array.left_out, comes_before);
}

// Description of a file that is not HDF5, with advice.
std::string other_file(const fs::path& path) {
  std::array<std::byte, 8> bytes{};
  const auto file = open_regular_file(path);
  const auto beginning = std::span(bytes).first(read_up_to(file.get(), bytes, path));
  if (is_npy(beginning)) {
    return "it is one .npy array; expected the folder that it is in, with inputs.npy and "
           "labels.npy or targets.npy";
  }
  if (beginning.size() > 1 && beginning[0] == std::byte{'P'} && beginning[1] == std::byte{'K'}) {
    return "it is a zip, as .npz files are; unpack it into a folder (unzip FILE -d FOLDER), and "
           "name the folder";
  }
  return other_file_text(content_of_file(path), "HDF5's signature is not in it") +
         "; expected a folder of .npy files, or an HDF5 file";
}

}  // namespace

ArrayCollection::ArrayCollection(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  const auto type = fs::status(path_, error).type();
  if (type == fs::file_type::not_found)
    throw InputError(fmt::format("data: {}", missing_path_text(path_)));
  if (error)
    throw InputError(fmt::format("data: cannot read {}: {}", path_.string(), error.message()));
  is_folder_ = type == fs::file_type::directory;
  if (!is_folder_ && !is_hdf5_file(path_)) {
    throw InputError(
        fmt::format("data: cannot read {} as HDF5: {}", path_.string(), other_file(path_)));
  }
}

std::vector<std::string> ArrayCollection::names() const {
  if (!is_folder_) return list_hdf5_arrays(path_);
  std::vector<std::string> names;
  for (const auto& entry : entries_of(path_)) {
    const auto name = entry.path().filename();
    std::error_code ignored;
    if (is_npy_name(entry) && !entry.is_directory(ignored))
      names.push_back(name.stem().native());
    else if (is_folder_of_npy(entry))
      names.push_back(name.native());
  }
  std::ranges::sort(names, comes_before);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

NamedArray ArrayCollection::find_npy(const std::string& name) const {
  const auto file = path_ / (name + ".npy"), folder = path_ / name;
  std::error_code ignored;
  const bool has_file = fs::exists(file, ignored), has_folder = fs::is_directory(folder, ignored);
  NamedArray found{name, nullptr};
  if (has_folder) list_rows(folder, found);
  if (has_file && !found.row_names.empty()) {
    throw InputError(fmt::format("data: there are both {} and files in {}; remove or rename one",
                                 file.string(), folder.string()));
  }
  if (has_file) return {name, open_npy_array(file)};
  if (!has_folder) return found;
  std::vector<fs::path> files;
  for (const auto& row : found.row_names) files.push_back(folder / (row + ".npy"));
  found.array = open_npy_files(folder, files);
  return found;
}

NamedArray ArrayCollection::find(const std::string& name) const {
  if (is_folder_) return find_npy(name);
  return {name, has_hdf5_array(path_, name) ? open_hdf5_array(path_, name) : nullptr};
}

}  // namespace kolo
