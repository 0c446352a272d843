#include "kolo/data/box_files.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "data/boxes/field_source.h"
#include "data/boxes/hdf5_attributes.h"
#include "data/boxes/hdf5_dataset.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/data/npy.h"

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

OpenBox open_box(const std::filesystem::path& path, BoxFields fields, BoxFormat& format) {
  std::error_code ignored;
  format = BoxFormat::npy;
  if (!std::filesystem::exists(path, ignored)) {
    if (std::filesystem::exists(npy_data_file(path), ignored)) return open_npy_box(path, fields);
    throw InputError(fmt::format(
        "data: there is neither {} nor {}; kolo data nbody --size 64 -o FILE.h5 makes a box",
        path.string(), npy_data_file(path).string()));
  }
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError(
        fmt::format("data: {} is a folder, expected an HDF5 file or a .npy pair's file or prefix",
                    path.string()));
  }
  {
    const MappedFile file(path);
    const std::span bytes(file.data(), static_cast<std::size_t>(file.size()));
    if (is_npy(bytes)) {
      return fields == BoxFields::nbody ? open_npy_file(path)
                                        : open_npy_box(prefix_of(path), fields);
    }
    if (!is_hdf5_file(path)) {
      throw InputError(fmt::format(
          "data: {} is no simulation box: expected an HDF5 file, or the .npy pair X_data.npy and "
          "X_label.npy; the file ({} bytes) begins with neither's signature",
          path.string(), file.size()));
    }
  }
  format = BoxFormat::hdf5;
  return open_hdf5_box(path, fields);
}

void refuse_existing(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) return;
  throw InputError(fmt::format("data: {} is there already; --force replaces it", file.string()));
}

bool is_same_file(const std::filesystem::path& one, const std::filesystem::path& other) {
  std::error_code error;
  return std::filesystem::equivalent(one, other, error) && !error;
}

}  // namespace

std::vector<std::string> channel_names(BoxField field) {
  std::vector<std::string> names{"density", "velocity x", "velocity y", "velocity z"};
  if (field == BoxField::hydro) names.emplace_back("temperature");
  return names;
}

BoxFile::BoxFile(const std::filesystem::path& path, BoxFields fields) {
  auto box = open_box(path, fields, format_);
  size_ = box.size;
  sources_ = std::move(box.sources);
  warnings_ = std::move(box.warnings);
}

BoxFile::BoxFile(BoxFile&&) noexcept = default;
BoxFile& BoxFile::operator=(BoxFile&&) noexcept = default;
BoxFile::~BoxFile() = default;

const FieldSource& BoxFile::source(BoxField field) const {
  if (!has(field)) {
    throw Error(fmt::format("data: the {} field of a box was not opened",
                            field == BoxField::nbody ? "dark matter" : "gas"));
  }
  return *sources_[field == BoxField::hydro];
}

std::unique_ptr<FieldSource> BoxFile::release(BoxField field) {
  return std::move(sources_[field == BoxField::hydro]);
}

const BoxFieldLayout& BoxFile::layout(BoxField field) const {
  return source(field).layout();
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
  const auto& [start, extent] = region;
  require_region(region, size_, channels, out.size());
  const auto view = source(field).view(region, scratch);
  float* place = out.data();
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (std::int64_t i = 0; i < extent[0]; ++i) {
      for (std::int64_t j = 0; j < extent[1]; ++j, place += extent[2]) {
        const float* const row =
            view.data + channel * view.strides[0] + i * view.strides[1] + j * view.strides[2];
        for (std::int64_t k = 0; k < extent[2]; ++k) place[k] = row[k * view.strides[3]];
      }
    }
  }
}

std::vector<std::string> convert_box(const BoxFile& box, const std::filesystem::path& to,
                                     const ConvertBoxOptions& options) {
  const auto files = options.to == BoxFormat::npy
                         ? std::vector{npy_data_file(to), npy_label_file(to)}
                         : std::vector{to};
  for (const auto& file : files) {
    for (const auto field : {BoxField::nbody, BoxField::hydro}) {
      if (!is_same_file(file, box.layout(field).file)) continue;
      throw InputError(
          fmt::format("data: {} is what is read, so it can't be written", file.string()));
    }
    if (!options.replace) refuse_existing(file);
  }
  const auto& from = box.layout(BoxField::nbody).file;
  const bool may_have_attributes = box.format() == BoxFormat::hdf5;
  std::vector<std::string> left_out;
  const auto annotate = [&](const Hdf5Handle& file, const std::string& what) {
    if (may_have_attributes) left_out = copy_hdf5_attributes(from, file, what);
  };
  const auto writer = options.to == BoxFormat::npy
                          ? make_npy_writer(to, box.size())
                          : make_hdf5_writer(to, box.size(), options.chunk, annotate);
  if (options.to == BoxFormat::npy && may_have_attributes) left_out = leave_hdf5_attributes(from);
  if (may_have_attributes)
    std::ranges::move(leave_other_objects(from), std::back_inserter(left_out));
  const auto multiple = std::max({box.plane_multiple(), options.chunk, std::int64_t{1}});
  write_box(
      *writer, box.size(), multiple,
      [&](BoxField field, std::int64_t first, std::int64_t count, std::span<float> out) {
        box.read_planes(field, first, count, out);
      },
      options.progress);
  return left_out;
}

namespace {

constexpr std::int64_t buffer_bytes = std::int64_t{1} << 26;

void check_field(std::span<const float> values, std::int64_t size, BoxField field) {
  const std::array dimensions{channels_of(field), size, size, size};
  const auto expected = checked_product(std::span<const std::int64_t>(dimensions));
  if (size >= 1 && std::cmp_equal(values.size(), expected)) return;
  throw Error(fmt::format("data: the {} field of a box of {}^3 cells has {} numbers, expected {}",
                          field == BoxField::nbody ? "dark matter" : "gas", size, values.size(),
                          expected));
}

// Reads planes out of a box in memory.
PlaneReader planes_of(const SimulationBox& box) {
  check_field(box.nbody, box.size, BoxField::nbody);
  check_field(box.hydro, box.size, BoxField::hydro);
  return [&box](BoxField field, std::int64_t first, std::int64_t count, std::span<float> out) {
    const auto& values = field == BoxField::nbody ? box.nbody : box.hydro;
    const auto plane = box.size * box.size;
    for (std::int64_t channel = 0; channel < channels_of(field); ++channel) {
      std::copy_n(values.data() + (channel * box.size + first) * plane, count * plane,
                  out.data() + channel * count * plane);
    }
  };
}

}  // namespace

void write_box(BoxWriter& writer, std::int64_t size, std::int64_t multiple, const PlaneReader& read,
               const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const auto plane_bytes =
      checked_multiply(checked_multiply(size, size), static_cast<std::int64_t>(sizeof(float)));
  const auto fitting = buffer_bytes / checked_multiply(hydro_channels, plane_bytes);
  const auto step = std::min(size, std::max<std::int64_t>(1, fitting / multiple) * multiple);
  std::vector<float> values;
  std::int64_t done = 0;
  for (const auto field : {BoxField::nbody, BoxField::hydro}) {
    for (std::int64_t first = 0; first < size; first += step) {
      const auto count = std::min(step, size - first);
      values.resize(static_cast<std::size_t>(channels_of(field) * count * size * size));
      read(field, first, count, values);
      writer.write_planes(field, first, count, values);
      done += count;
      if (progress) progress(done, 2 * size);
    }
  }
  writer.commit();
}

void write_box_npy(const SimulationBox& box, const std::filesystem::path& prefix) {
  const auto read = planes_of(box);
  write_box(*make_npy_writer(prefix, box.size), box.size, 1, read);
}

void write_box_hdf5(const SimulationBox& box, const std::filesystem::path& file,
                    std::int64_t chunk) {
  const auto read = planes_of(box);
  const auto annotate = [&](const Hdf5Handle& hdf5, const std::string& what) {
    for (const auto& [name, value] : box.parameters) write_hdf5_number(hdf5, name, value, what);
  };
  write_box(*make_hdf5_writer(file, box.size, chunk, annotate), box.size,
            std::max<std::int64_t>(chunk, 1), read);
}

}  // namespace kolo
