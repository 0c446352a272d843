#include "tools/inspect_arrays.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>

#include <fmt/format.h>

#include "data/array_collection.h"
#include "data/boxes/hdf5_attributes.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/data/array_file.h"
#include "kolo/data/array_samples.h"
#include "kolo/data/box_files.h"
#include "kolo/train/observe/format.h"

namespace kolo {

void Range::add(double value) {
  if (!std::isfinite(value)) {
    ++not_finite;
    return;
  }
  if (!std::isfinite(static_cast<float>(value))) ++beyond_float32;
  least = std::min(least, value);
  most = std::max(most, value);
  sum += value;
  ++count;
}

InspectionJson new_inspection(const std::filesystem::path& path, const std::string& format,
                              std::uint64_t bytes) {
  return {{"path", path.string()},
          {"format", format},
          {"bytes", bytes},
          {"arrays", InspectionJson::array()},
          {"facts", InspectionJson::object()},
          {"advice", InspectionJson::array()}};
}

InspectionJson array_json(const std::string& name, const std::string& type,
                          const std::vector<std::int64_t>& shape, const Ranges& ranges) {
  InspectionJson json{{"name", name},
                      {"type", type},
                      {"shape", shape},
                      {"chunk", InspectionJson::array()},
                      {"filters", InspectionJson::array()},
                      {"channels", InspectionJson::array()}};
  for (const auto& [channel, range] : ranges) {
    // Without finite numbers there is no range.
    const auto number = [&count = range.count](double value) {
      return count > 0 ? InspectionJson(value) : InspectionJson(nullptr);
    };
    json["channels"].push_back({{"name", channel},
                                {"min", number(range.least)},
                                {"max", number(range.most)},
                                {"mean", number(range.sum / static_cast<double>(range.count))},
                                {"not_finite", range.not_finite},
                                {"beyond_float32", range.beyond_float32}});
  }
  return json;
}

namespace {

namespace fs = std::filesystem;

Ranges field_ranges(std::int64_t channels) {
  constexpr std::array names{"rho", "vx", "vy", "vz", "T"};
  Ranges ranges;
  for (std::size_t i = 0; i < static_cast<std::size_t>(channels); ++i)
    ranges.emplace_back(names.at(i), Range());
  return ranges;
}

InspectionJson describe(const std::string& name, const ArrayLayout& layout, const Ranges& ranges) {
  auto json = array_json(name, layout.type, layout.shape, ranges);
  json["chunk"] = layout.chunk;
  json["filters"] = layout.filters;
  return json;
}

void advise_on(const std::string& name, const Range& range, InspectionJson& advice) {
  if (range.not_finite > 0) {
    advice.push_back(
        fmt::format("{} of the numbers of {} are not finite; no network can learn from them",
                    format_count(range.not_finite), name));
  }
  if (range.beyond_float32 > 0) {
    advice.push_back(fmt::format(
        "{} of the numbers of {} are finite, but float32 can't represent them (at most 3.4e38 in "
        "size), and networks compute in float32; bring them to a smaller scale",
        format_count(range.beyond_float32), name));
  }
}

// Adds an array to an inspection, with advice on its numbers.
void add_array(InspectionJson& inspection, const std::string& name, const ArrayFile& array,
               bool reads_numbers, bool may_be_field = false) {
  constexpr std::int64_t numbers_at_once = 1 << 18;
  const auto& shape = array.layout().shape;
  Ranges ranges;
  if (reads_numbers) {
    const bool is_field = may_be_field && shape.size() == 4 &&
                          (shape.back() == nbody_channels || shape.back() == hydro_channels);
    ranges = is_field ? field_ranges(shape.back()) : Ranges{{"all", {}}};
    const auto step =
        std::max<std::int64_t>(1, numbers_at_once / std::max<std::int64_t>(1, array.row_numbers()));
    std::vector<double> numbers;
    for (std::int64_t first = 0; first < array.rows(); first += step) {
      const auto count = std::min(step, array.rows() - first);
      numbers.resize(static_cast<std::size_t>(count * array.row_numbers()));
      array.read(first, count, numbers);
      add_numbers<double>(ranges, numbers);
    }
  }
  for (const auto& [channel, range] : ranges) advise_on(name, range, inspection["advice"]);
  inspection["arrays"].push_back(describe(name, array.layout(), ranges));
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

// Adds the attributes of an HDF5 file's root and datasets to the facts.
void add_attributes(const fs::path& hdf5, InspectionJson& inspection) {
  constexpr std::size_t most_shown = 64;
  const auto attributes = read_hdf5_attributes(hdf5);
  for (const auto& [name, value] : attributes.items()) {
    inspection["facts"][name] =
        value.is_array() && value.size() > most_shown
            ? InspectionJson(
                  fmt::format("{} values", format_count(narrow<std::int64_t>(value.size()))))
            : value;
  }
}

Ranges ranges_of(const BoxFile& box, BoxField field) {
  const auto channels = channels_of(field), size = box.size();
  auto ranges = field_ranges(channels);
  const auto step = std::min(box.plane_multiple(), size);
  std::vector<float> planes;
  for (std::int64_t first = 0; first < size; first += step) {
    const auto count = std::min(step, size - first);
    const auto cells = static_cast<std::size_t>(count * size * size);
    planes.resize(static_cast<std::size_t>(channels) * cells);
    box.read_planes(field, first, count, planes);
    add_numbers<float>(ranges, planes, cells);
  }
  return ranges;
}

// Advice on a box's field.
void advise_on_field(const std::string& field, const Ranges& ranges, InspectionJson& advice) {
  for (const auto& [name, range] : ranges) {
    advise_on(field + "'s " + name, range, advice);
    if (range.least < -1 || range.most > 1) {
      advice.push_back(
          fmt::format("{}'s {} runs from {:.3g} to {:.3g}; normalized fields are "
                      "within -1 to 1, as a tanh gives them",
                      field, name, range.least, range.most));
    }
  }
}

void advise_on_memory(std::uint64_t bytes, InspectionJson& advice) {
  const auto installed = installed_memory();
  if (!installed) return;
  const auto memory = static_cast<std::uint64_t>(*installed);
  if (bytes > memory - memory / 4) {
    advice.push_back(fmt::format(
        "larger than the page cache of this machine's {} can keep, so crops come from the disk "
        "again and again: put the file on a fast local one",
        format_bytes(memory)));
  } else {
    advice.push_back(
        "fits into the page cache: once read, mode lowmem is about as fast as inmem, and the ranks "
        "of a machine share it");
  }
}

}  // namespace

InspectionJson inspect_npy(const fs::path& path, bool reads_numbers) {
  auto inspection = new_inspection(path, ".npy array", fs::file_size(path));
  add_array(inspection, path.filename().string(), *open_npy_array(path), reads_numbers, true);
  return inspection;
}

InspectionJson inspect_array_samples(const fs::path& path, bool reads_numbers) {
  const ArraySamples samples(path);
  auto inspection = new_inspection(path, "samples of arrays", bytes_of(path));
  inspection["advice"] = samples.warnings();
  for (const auto& each : samples.arrays())
    add_array(inspection, each.name, *each.array, reads_numbers);
  inspection["facts"]["samples"] = samples.size();
  if (!fs::is_directory(path)) add_attributes(path, inspection);
  if (samples.layout().classes > 0) inspection["facts"]["classes"] = samples.layout().classes;
  inspection["advice"].push_back(fmt::format(
      "a network is trained on it with data: {{name: arrays, train_path: {}, valid_path: ...}}",
      path.string()));
  return inspection;
}

InspectionJson inspect_arrays(const fs::path& path, bool reads_numbers) {
  const ArrayCollection collection(path);
  const auto* const format = collection.is_folder() ? "folder of .npy arrays" : "HDF5 file";
  auto inspection = new_inspection(path, format, bytes_of(path));
  for (const auto& name : collection.names()) {
    try {
      const auto found = collection.find(name);
      if (found.array) add_array(inspection, name, *found.array, reads_numbers);
    } catch (const InputError& error) {
      inspection["advice"].push_back(error.what());
    }
  }
  if (!collection.is_folder()) add_attributes(path, inspection);
  if (inspection["arrays"].empty()) {
    throw InputError(inspection["advice"].empty()
                         ? fmt::format("data: {} holds no array of numbers", path.string())
                         : inspection["advice"].front().get<std::string>());
  }
  inspection["advice"].push_back(fmt::format(
      "a network is trained on those with their samples in front by data: {{name: arrays, "
      "train_path: {}, valid_path: ..., inputs: [{}], targets: [...]}}",
      path.string(), inspection["arrays"].front()["name"].get<std::string>()));
  return inspection;
}

InspectionJson inspect_box(const fs::path& path, bool reads_numbers) {
  const BoxFile box(path, BoxFields::any);
  const bool is_npy = box.format() == BoxFormat::npy;
  auto inspection =
      new_inspection(path, is_npy ? "simulation box, .npy pair" : "simulation box, HDF5", 0);
  auto& advice = inspection["advice"];
  bool is_mapped = true;
  std::uint64_t bytes = 0;
  fs::path file;
  for (const auto field : {BoxField::nbody, BoxField::hydro}) {
    if (!box.has(field)) continue;
    const auto& layout = box.layout(field);
    file = layout.file;
    const std::string name = is_npy                     ? file.filename().string()
                             : field == BoxField::nbody ? "Nbody"
                                                        : "Hydro";
    const auto ranges = reads_numbers ? ranges_of(box, field) : Ranges();
    bytes += static_cast<std::uint64_t>(layout.stored_bytes);
    is_mapped = is_mapped && layout.is_mapped;
    advise_on_field(name, ranges, advice);
    inspection["arrays"].push_back(describe(name, layout, ranges));
  }
  inspection["bytes"] = bytes;
  if (!is_npy) add_attributes(file, inspection);
  if (!is_mapped) {
    advice.push_back(
        "one thread at a time can read it, through the HDF5 library; kolo data convert makes a "
        "file that all threads read at once");
  }
  if (box.has(BoxField::nbody) && box.has(BoxField::hydro)) {
    advise_on_memory(bytes, advice);
  } else {
    advice.push_back(fmt::format("the {} is not there, so no network can be trained on it",
                                 box.has(BoxField::nbody) ? "gas (Hydro)" : "dark matter (Nbody)"));
  }
  return inspection;
}

}  // namespace kolo
