#include "kolo/data/box_files.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/boxes/field_source.h"
#include "data/boxes/file_arrays.h"
#include "data/boxes/hdf5.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// The prefix of the pair that a .npy file is of.
std::filesystem::path prefix_of(const std::filesystem::path& file) {
  const auto name = file.filename().string();
  for (const std::string_view ending : {"_data.npy", "_label.npy"}) {
    if (name.ends_with(ending)) {
      return file.parent_path() / name.substr(0, name.size() - ending.size());
    }
  }
  throw InputError(
      fmt::format("data: {} is a .npy file, but its name is neither X_data.npy nor X_label.npy, so "
                  "the other one of the pair can't be told",
                  file.string()));
}

// Files by BoxField (HDF5: twice the same); an empty path: that field is not wanted.
struct FoundBox {
  BoxFormat format = BoxFormat::npy;
  std::array<std::filesystem::path, 2> files;
};

FoundBox pair_of(const std::filesystem::path& prefix) {
  return {.files = {npy_data_file(prefix), npy_label_file(prefix)}};
}

FoundBox find_box(const std::filesystem::path& path, BoxFields fields) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    if (std::filesystem::exists(npy_data_file(path), ignored)) return pair_of(path);
    throw InputError(fmt::format(
        "data: there is neither {} nor {}; kolo data nbody --size 64 -o FILE.h5 makes a box",
        path.string(), npy_data_file(path).string()));
  }
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError(
        fmt::format("data: {} is a folder, expected an HDF5 file or a .npy pair's file or prefix",
                    path.string()));
  }
  const auto file = map_file(path);
  if (is_npy(file.bytes())) {
    if (fields == BoxFields::nbody) return {.files = {path, {}}};
    return pair_of(prefix_of(path));
  }
  if (is_hdf5_file(path)) return {BoxFormat::hdf5, {path, path}};
  throw InputError(fmt::format(
      "data: {} is no simulation box: expected an HDF5 file, or the .npy pair X_data.npy and "
      "X_label.npy; the file ({} bytes) begins with neither's signature",
      path.string(), file.size));
}

bool has_field(const FoundBox& found, BoxField field) {
  const auto& file = found.files[field == BoxField::hydro];
  if (found.format == BoxFormat::hdf5) return has_hdf5_array(file, hdf5_name_of(field));
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

std::shared_ptr<const ArrayFile> open_array(const FoundBox& found, BoxField field) {
  const auto& file = found.files[field == BoxField::hydro];
  if (found.format == BoxFormat::hdf5)
    return open_hdf5_array(file, hdf5_name_of(field), ArrayAccess::regions);
  if (!has_field(found, field)) {
    throw InputError(
        fmt::format("data: there is no {}; a .npy pair is X_data.npy and X_label.npy "
                    "in one folder",
                    file.string()));
  }
  return open_npy_array(file, ArrayAccess::regions);
}

// A cube of cells with the field's channels, of floating-point numbers.
void require_field(const ArrayFile& array, BoxField field, bool is_channel_last) {
  const auto& shape = array.layout().shape;
  const auto channels = channels_of(field);
  const std::size_t first = is_channel_last ? 0 : 1;
  if (shape.size() != 4 || shape[is_channel_last ? 3 : 0] != channels || shape[1] < 1 ||
      shape[first] != shape[1] || shape[first + 2] != shape[1] || shape[2] != shape[1]) {
    throw InputError(fmt::format(
        "data: the shape of {} is ({}), expected ({}): a cube of cells with {} channels each, {}",
        array.name(), shape_text(shape),
        is_channel_last ? fmt::format("N, N, N, {}", channels)
                        : fmt::format("{}, N, N, N", channels),
        channels, is_channel_last ? "last" : "first"));
  }
  if (!array.is_whole()) return;
  throw InputError(fmt::format(
      "data: {} holds {} numbers, expected float32 (other floating-point numbers are converted)",
      array.name(), array.layout().type));
}

// Reason for which a field of HDF5 can't be read where it lies in the file.
std::string obstacle(const ArrayLayout& layout) {
  if (layout.type != "float32") return fmt::format("is {} and converted to float32", layout.type);
  if (!layout.filters.empty())
    return fmt::format("is packed ({})", fmt::join(layout.filters, ", "));
  return layout.chunk.empty() ? "does not lie in the file as it does in memory" : "is in chunks";
}

void warn_of_layout(const ArrayFile& array, std::vector<std::string>& warnings) {
  const auto& layout = array.layout();
  if (!layout.is_mapped) {
    warnings.push_back(
        fmt::format("data: {} {}, so one thread at a time reads it; kolo data convert makes a "
                    "file that all threads read",
                    array.name(), obstacle(layout)));
  } else if (layout.type != "float32") {
    warnings.push_back(fmt::format(
        "data: {} is {}, which is converted whenever it is read; float32 needs no conversion",
        array.name(), layout.type));
  }
}

}  // namespace

std::vector<std::string> channel_names(BoxField field) {
  std::vector<std::string> names{"density", "velocity x", "velocity y", "velocity z"};
  if (field == BoxField::hydro) names.emplace_back("temperature");
  return names;
}

BoxFile::BoxFile(const std::filesystem::path& path, BoxFields fields) {
  const auto found = find_box(path, fields);
  format_ = found.format;
  const bool is_npy = format_ == BoxFormat::npy;
  const std::array both{BoxField::nbody, BoxField::hydro};
  for (const auto field : both) {
    if (field == BoxField::hydro && fields == BoxFields::nbody) continue;
    const auto other = both[field == BoxField::nbody];
    if (fields == BoxFields::any && !has_field(found, field) && has_field(found, other)) continue;
    const auto array = open_array(found, field);
    require_field(*array, field, is_npy);
    const auto size = array->layout().shape[1];
    if (field == BoxField::hydro && has(BoxField::nbody) && size != size_) {
      throw InputError(
          fmt::format("data: {} has {}^3 cells and {} {}^3, expected as many", array->name(), size,
                      is_npy ? found.files[0].string() : hdf5_name_of(BoxField::nbody), size_));
    }
    size_ = size;
    warn_of_layout(*array, warnings_);
    sources_[field == BoxField::hydro] = std::make_shared<FieldSource>(array, is_npy);
  }
}

std::shared_ptr<const FieldSource> BoxFile::source(BoxField field) const {
  if (!has(field)) {
    throw Error(fmt::format("data: the {} field of a box was not opened",
                            field == BoxField::nbody ? "dark matter" : "gas"));
  }
  return sources_[field == BoxField::hydro];
}

const ArrayLayout& BoxFile::layout(BoxField field) const {
  return source(field)->array().layout();
}

std::int64_t BoxFile::plane_multiple() const {
  std::int64_t multiple = 1;
  for (const auto& source : sources_) {
    if (source) multiple = std::max(multiple, source->plane_multiple());
  }
  return multiple;
}

void BoxFile::read_planes(BoxField field, std::int64_t first, std::int64_t count,
                          std::span<float> out) const {
  std::vector<float> scratch;
  read_region(field, {.start = {first, 0, 0}, .extent = {count, size_, size_}}, scratch, out);
}

void BoxFile::read_region(BoxField field, const Region& region, std::vector<float>& scratch,
                          std::span<float> out) const {
  const auto channels = channels_of(field);
  require_region(region, size_, channels, out.size());
  std::vector<float> plane;  // for axes that change places: none
  copy_rotated(source(field)->view(region, scratch), channels, region.extent, {}, plane,
               out.data());
}

std::filesystem::path npy_data_file(const std::filesystem::path& prefix) {
  return prefix.string() + "_data.npy";
}

std::filesystem::path npy_label_file(const std::filesystem::path& prefix) {
  return prefix.string() + "_label.npy";
}

}  // namespace kolo
