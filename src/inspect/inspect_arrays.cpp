#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/array_collection.h"
#include "data/boxes/hdf5_attributes.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/data/array_file.h"
#include "kolo/data/array_samples.h"
#include "kolo/data/box_files.h"
#include "kolo/inspect/inspection.h"
#include "kolo/observe/format.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// The channels that ranges are told of: those of a simulation's field, or all numbers together.
std::vector<std::string> range_names(const ArrayFile& array, bool may_be_field) {
  constexpr std::array field_names{"rho", "vx", "vy", "vz", "T"};
  const auto& shape = array.layout().shape;
  const bool is_field = may_be_field && shape.size() == 4 &&
                        (shape.back() == nbody_channels || shape.back() == hydro_channels);
  if (!is_field) return {"all"};
  return {field_names.begin(), field_names.begin() + shape.back()};
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
  const auto& layout = array.layout();
  ArrayInspection inspection{.name = name,
                             .type = layout.type_text(),
                             .shape = layout.shape,
                             .chunk = layout.chunk,
                             .filters = layout.filters};
  if (!reads_numbers) return inspection;
  for (const auto& channel : range_names(array, may_be_field))
    inspection.ranges.emplace_back(channel, Range());
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

// Those that can't be read are advice.
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

bool holds_arrays(const fs::path& path) {
  return !ArrayCollection(path).names().empty();
}

bool holds_array_named(const fs::path& path, const std::string& name) {
  return ArrayCollection(path).holds(name);
}

}  // namespace kolo
