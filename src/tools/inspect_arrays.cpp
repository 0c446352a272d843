#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "data/array_collection.h"
#include "data/boxes/hdf5_attributes.h"
#include "tools/kinds.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/data/array_file.h"
#include "kolo/data/array_samples.h"
#include "kolo/data/box_files.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

constexpr std::array field_names{"rho", "vx", "vy", "vz", "T"};

ArrayInspection describe(const std::string& name, const ArrayLayout& layout) {
  return {.name = name,
          .type = layout.type_text(),
          .shape = layout.shape,
          .chunk = layout.chunk,
          .filters = layout.filters};
}

void add_ranges(ArrayInspection& inspection, std::span<const char* const> channels) {
  for (const auto* const channel : channels) inspection.ranges.emplace_back(channel, Range());
}

// Channels that ranges are told of: a field's, where it is a simulation's, or all numbers together.
std::span<const char* const> range_names(const ArrayFile& array, bool may_be_field) {
  static constexpr std::array all{"all"};
  const auto& shape = array.layout().shape;
  const bool is_field = may_be_field && shape.size() == 4 &&
                        (shape.back() == nbody_channels || shape.back() == hydro_channels);
  if (!is_field) return all;
  return std::span(field_names).first(static_cast<std::size_t>(shape.back()));
}

void read_ranges(const ArrayFile& array, ArrayInspection& inspection) {
  constexpr std::int64_t numbers_at_once = 1 << 18;
  const auto channels = inspection.ranges.size();
  const auto step =
      std::max<std::int64_t>(1, numbers_at_once / std::max<std::int64_t>(1, array.row_numbers()));
  std::vector<double> numbers;
  for (std::int64_t first = 0; first < array.rows(); first += step) {
    const auto count = std::min(step, array.rows() - first);
    numbers.resize(static_cast<std::size_t>(count * array.row_numbers()));
    array.read(first, count, numbers);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      inspection.ranges[i % channels].second.add(numbers[i]);
  }
}

ArrayInspection inspect_array(const std::string& name, const ArrayFile& array, bool reads_numbers,
                              bool may_be_field = false) {
  auto inspection = describe(name, array.layout());
  if (!reads_numbers) return inspection;
  add_ranges(inspection, range_names(array, may_be_field));
  read_ranges(array, inspection);
  return inspection;
}

void advise_on_numbers(Inspection& inspection) {
  for (const auto& array : inspection.arrays) {
    for (const auto& [name, range] : array.ranges) {
      if (range.not_finite() > 0) {
        inspection.advice.push_back(
            fmt::format("{} of the numbers of {} are not finite; no network can learn from them",
                        format_count(range.not_finite()), array.name));
      }
      if (range.beyond_float32() > 0) {
        inspection.advice.push_back(fmt::format(
            "{} of the numbers of {} are finite, but float32 can't represent them (at most 3.4e38 "
            "in size), and networks compute in float32; bring them to a smaller scale",
            format_count(range.beyond_float32()), array.name));
      }
    }
  }
}

std::uint64_t bytes_of(const fs::path& path) {
  std::error_code ignored;  // a size is told to people alone
  if (!fs::is_directory(path, ignored)) return fs::file_size(path);
  std::uint64_t bytes = 0;
  constexpr auto options = fs::directory_options::skip_permission_denied;
  for (const auto& entry : fs::recursive_directory_iterator(path, options))
    if (entry.is_regular_file(ignored)) bytes += entry.file_size(ignored);
  return bytes;
}

// Arrays that can't be read become advice.
void add_arrays(const ArrayCollection& collection, bool reads_numbers, Inspection& inspection) {
  for (const auto& name : collection.names()) {
    try {
      const auto found = collection.find(name);
      if (found.array)
        inspection.arrays.push_back(inspect_array(name, *found.array, reads_numbers));
    } catch (const InputError& error) {
      inspection.advice.emplace_back(error.what());
    }
  }
}

// Adds the attributes of an HDF5 file's root and datasets to the facts.
void add_attributes(const fs::path& hdf5, Inspection& inspection) {
  constexpr std::size_t most_shown = 64;
  for (const auto& attribute : read_hdf5_attributes(hdf5)) {
    const auto value = std::visit(
        [&](const auto& values) -> nlohmann::json {
          if (attribute.is_single && !values.empty()) return values.front();
          if (values.size() <= most_shown) return values;
          return fmt::format("{} values", format_count(narrow<std::int64_t>(values.size())));
        },
        attribute.values);
    inspection.facts.emplace_back(attribute.name, value);
  }
}

void read_ranges(const BoxFile& box, BoxField field, ArrayInspection& array) {
  const auto channels = channels_of(field), size = box.size();
  add_ranges(array, std::span(field_names).first(static_cast<std::size_t>(channels)));
  const auto step = std::min(box.plane_multiple(), size);
  std::vector<float> planes;
  for (std::int64_t first = 0; first < size; first += step) {
    const auto count = std::min(step, size - first);
    const auto cells = static_cast<std::size_t>(count * size * size);
    planes.resize(static_cast<std::size_t>(channels) * cells);
    box.read_planes(field, first, count, planes);
    for (std::size_t channel = 0; channel < array.ranges.size(); ++channel) {
      array.ranges[channel].second.add(std::span(planes).subspan(channel * cells, cells));
    }
  }
}

// Advice on a box's field.
void advise_on_ranges(const ArrayInspection& array, std::vector<std::string>& advice) {
  for (const auto& [name, range] : array.ranges) {
    if (range.not_finite() > 0) {
      advice.push_back(
          fmt::format("{} of the numbers of {}'s {} are not finite; no network can "
                      "learn from them",
                      format_count(range.not_finite()), array.name, name));
    }
    if (range.least() < -1 || range.most() > 1) {
      advice.push_back(
          fmt::format("{}'s {} runs from {:.3g} to {:.3g}; normalized fields are "
                      "within -1 to 1, as a tanh gives them",
                      array.name, name, range.least(), range.most()));
    }
  }
}

void advise_on_memory(std::uint64_t bytes, std::vector<std::string>& advice) {
  const auto installed = installed_memory();
  if (!installed) return;
  const auto memory = static_cast<std::uint64_t>(*installed);
  if (bytes > memory - memory / 4) {
    advice.push_back(
        fmt::format("larger than the page cache of this machine's {} can keep, so crops "
                    "come from the disk again and again: put the file on a fast local one",
                    format_bytes(memory)));
  } else {
    advice.emplace_back(
        "fits into the page cache: once read, mode lowmem is about as fast as inmem, and "
        "the ranks of a machine share it");
  }
}

}  // namespace

Inspection inspect_npy(const fs::path& path, bool reads_numbers) {
  Inspection inspection{
      .path = path.string(), .format = ".npy array", .bytes = fs::file_size(path)};
  inspection.arrays.push_back(
      inspect_array(path.filename().string(), *open_npy_array(path), reads_numbers, true));
  advise_on_numbers(inspection);
  return inspection;
}

Inspection inspect_array_samples(const fs::path& path, bool reads_numbers) {
  const ArraySamples samples(path);
  Inspection inspection{
      .path = path.string(), .format = "samples of arrays", .bytes = bytes_of(path)};
  for (const auto& [name, array] : samples.parts())
    inspection.arrays.push_back(inspect_array(name, *array, reads_numbers));
  inspection.facts.emplace_back("samples", samples.size());
  if (!fs::is_directory(path)) add_attributes(path, inspection);
  if (samples.layout().classes > 0)
    inspection.facts.emplace_back("classes", samples.layout().classes);
  inspection.advice = samples.warnings();
  advise_on_numbers(inspection);
  inspection.advice.push_back(
      fmt::format("a network is trained on it with data: {{name: arrays, train_path: {}, "
                  "valid_path: ...}}",
                  path.string()));
  return inspection;
}

Inspection inspect_arrays(const fs::path& path, bool reads_numbers) {
  const ArrayCollection collection(path);
  Inspection inspection{.path = path.string(),
                        .format = collection.is_folder() ? "folder of .npy arrays" : "HDF5 file",
                        .bytes = bytes_of(path)};
  add_arrays(collection, reads_numbers, inspection);
  if (!collection.is_folder()) add_attributes(path, inspection);
  advise_on_numbers(inspection);
  if (inspection.arrays.empty()) {
    throw InputError(inspection.advice.empty()
                         ? fmt::format("data: {} holds no array of numbers", path.string())
                         : inspection.advice.front());
  }
  inspection.advice.push_back(fmt::format(
      "a network is trained on those with their samples in front by data: {{name: arrays, "
      "train_path: {}, valid_path: ..., inputs: [{}], targets: [...]}}",
      path.string(), inspection.arrays.front().name));
  return inspection;
}

Inspection inspect_box(const fs::path& path, bool reads_numbers) {
  const BoxFile box(path, BoxFields::any);
  const bool is_npy = box.format() == BoxFormat::npy;
  Inspection inspection{.path = path.string(),
                        .format = is_npy ? "simulation box, .npy pair" : "simulation box, HDF5"};
  bool is_mapped = true, has_chunks = false;
  fs::path file;
  for (const auto field : {BoxField::nbody, BoxField::hydro}) {
    if (!box.has(field)) continue;
    const auto& layout = box.layout(field);
    file = layout.file;
    const auto* const name = field == BoxField::nbody ? "Nbody" : "Hydro";
    auto array = describe(is_npy ? file.filename().string() : name, layout);
    if (reads_numbers) read_ranges(box, field, array);
    inspection.bytes += static_cast<std::uint64_t>(layout.stored_bytes);
    is_mapped = is_mapped && layout.is_mapped;
    has_chunks = has_chunks || !layout.chunk.empty();
    advise_on_ranges(array, inspection.advice);
    inspection.arrays.push_back(std::move(array));
  }
  if (!is_npy) add_attributes(file, inspection);
  if (!is_mapped) {
    inspection.advice.emplace_back(
        "one thread at a time can read it, through the HDF5 library; kolo data convert makes a "
        "file that all threads read at once");
  } else if (has_chunks) {
    inspection.advice.emplace_back(
        "in chunks, which are read as they lie; a contiguous box is read faster (kolo data "
        "convert)");
  }
  if (box.has(BoxField::nbody) && box.has(BoxField::hydro)) {
    advise_on_memory(inspection.bytes, inspection.advice);
  } else {
    inspection.advice.push_back(
        fmt::format("the {} is not there, so no network can be trained on it",
                    box.has(BoxField::nbody) ? "gas (Hydro)" : "dark matter (Nbody)"));
  }
  return inspection;
}

}  // namespace kolo
