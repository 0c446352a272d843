#include "kolo/tools/data_sets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/file_kind.h"
#include "kolo/data/array_file.h"
#include "kolo/data/array_samples.h"
#include "kolo/data/box_files.h"
#include "kolo/data/cifar10.h"
#include "kolo/data/image.h"
#include "kolo/data/image_folder.h"
#include "kolo/data/mnist.h"
#include "kolo/train/checkpoint/safetensors.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;
using InspectionJson = nlohmann::ordered_json;

// Range and mean of numbers, added one by one.
struct Range {
  std::string name = {};  // of a channel
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double sum = 0;                          // of the finite ones
  std::int64_t count = 0, not_finite = 0;  // count: finite ones
  std::int64_t beyond_float32 = 0;         // of these, infinite as float32

  void add(double value) {
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
};
using Ranges = std::vector<Range>;  // by channel

// Adds numbers that lie channel after channel, `run` of each at a time.
template <typename Number>
void add_numbers(Ranges& ranges, std::span<const Number> numbers, std::size_t run = 1) {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    ranges[i / run % ranges.size()].add(static_cast<double>(numbers[i]));
}

// An inspection without arrays, facts and advice.
InspectionJson new_inspection(const std::filesystem::path& path, std::string_view format,
                              std::uint64_t bytes) {
  return {{"path", path.string()},
          {"format", format},
          {"bytes", bytes},
          {"arrays", InspectionJson::array()},
          {"facts", InspectionJson::object()},
          {"advice", InspectionJson::array()}};
}

InspectionJson array_json(const std::string& name, const ArrayLayout& layout,
                          const Ranges& ranges = {}) {
  InspectionJson json{
      {"name", name},          {"type", layout.type},       {"shape", layout.shape},
      {"chunk", layout.chunk}, {"filters", layout.filters}, {"channels", InspectionJson::array()}};
  for (const auto& range : ranges) {
    // Null without finite numbers.
    const auto number = [&count = range.count](double value) {
      return count > 0 ? InspectionJson(value) : InspectionJson(nullptr);
    };
    json["channels"].push_back({{"name", range.name},
                                {"min", number(range.least)},
                                {"max", number(range.most)},
                                {"mean", number(range.sum / static_cast<double>(range.count))},
                                {"not_finite", range.not_finite},
                                {"beyond_float32", range.beyond_float32}});
  }
  return json;
}

InspectionJson bytes_json(const std::string& name, const std::vector<std::int64_t>& shape,
                          const Ranges& ranges = {}) {
  return array_json(name, {.type = "uint8", .shape = shape}, ranges);
}

// Adds an array to an inspection.
void add_array(InspectionJson& inspection, const std::string& name, const ArrayFile& array,
               bool reads_numbers) {
  constexpr std::int64_t numbers_at_once = 1 << 18;
  Ranges ranges;
  if (reads_numbers) {
    ranges = {{.name = "all"}};
    const auto step =
        std::max<std::int64_t>(1, numbers_at_once / std::max<std::int64_t>(1, array.row_numbers()));
    std::vector<double> numbers;
    for (std::int64_t first = 0; first < array.rows(); first += step) {
      const auto count = std::min(step, array.rows() - first);
      numbers.resize(static_cast<std::size_t>(count * array.row_numbers()));
      array.read(first, count, std::span(numbers));
      add_numbers<double>(ranges, numbers);
    }
  }
  inspection["arrays"].push_back(array_json(name, array.layout(), ranges));
}

std::uint64_t bytes_of(const fs::path& path) {
  std::error_code ignored;  // the size is only shown to people
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

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Adds all arrays of a folder of .npy files or of an HDF5 file; one that can't be read becomes
// advice.
void add_all_arrays(InspectionJson& inspection, const ArrayCollection& collection,
                    bool reads_numbers) {
  for (const auto& name : collection.names()) {
    try {
      const auto found = collection.find(name);
      if (found.array) add_array(inspection, name, *found.array, reads_numbers);
    } catch (const InputError& error) {
      inspection["advice"].push_back(error.what());
    }
  }
  if (inspection["arrays"].empty()) {
    throw InputError(
        inspection["advice"].empty()
            ? fmt::format("data: {} holds no array of numbers", collection.path().string())
            : inspection["advice"].front().get<std::string>());
  }
}

// Inspects arrays, whether they have the names that the data set `arrays` takes or others.
InspectionJson inspect_arrays(const fs::path& path, bool reads_numbers) {
  const ArrayCollection collection(path);
  const bool is_folder = collection.is_folder();
  auto inspection = new_inspection(path, is_folder ? "folder of .npy arrays" : data_formats::hdf5,
                                   bytes_of(path));
  std::string inputs;
  if (holds(collection.names(), "inputs")) {
    const ArraySamples samples(path);
    inspection["format"] = data_formats::samples;
    inspection["advice"] = samples.warnings();
    for (const auto& each : samples.arrays())
      add_array(inspection, each.name, *each.array, reads_numbers);
    inspection["facts"]["samples"] = samples.size();
    if (samples.layout().classes > 0) inspection["facts"]["classes"] = samples.layout().classes;
  } else {
    add_all_arrays(inspection, collection, reads_numbers);
    inputs = fmt::format(", inputs: [{}], targets: [...]",
                         inspection["arrays"].front()["name"].get<std::string>());
  }
  if (!is_folder) add_attributes(path, inspection);
  inspection["advice"].push_back(
      fmt::format("a network is trained on arrays with their samples in front by data: {{name: "
                  "arrays, train_path: {}, valid_path: ...{}}}",
                  path.string(), inputs));
  return inspection;
}

Ranges ranges_of(const BoxFile& box, BoxField field) {
  const auto channels = channels_of(field), size = box.size();
  Ranges ranges{{"rho"}, {"vx"}, {"vy"}, {"vz"}, {"T"}};
  ranges.resize(static_cast<std::size_t>(channels));
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
  for (const auto& range : ranges) {
    if (range.least < -1 || range.most > 1) {
      advice.push_back(
          fmt::format("{}'s {} runs from {:.3g} to {:.3g}; normalized fields are "
                      "within -1 to 1, as a tanh gives them",
                      field, range.name, range.least, range.most));
    }
  }
}

InspectionJson inspect_box(const fs::path& path, bool reads_numbers) {
  const BoxFile box(path, BoxFields::any);
  const bool is_npy = box.format() == BoxFormat::npy;
  auto inspection = new_inspection(
      path, fmt::format("{}, {}", data_formats::box, is_npy ? ".npy pair" : "HDF5"), 0);
  auto& advice = inspection["advice"];
  bool is_plain = true;
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
    is_plain = is_plain && layout.is_mapped && layout.chunk.empty();
    advise_on_field(name, ranges, advice);
    inspection["arrays"].push_back(array_json(name, layout, ranges));
  }
  inspection["bytes"] = bytes;
  if (!is_npy) add_attributes(file, inspection);
  if (!is_plain) {
    advice.push_back(
        "packed, in chunks or not of float32; kolo data convert makes a file that all threads read "
        "at once, and fast");
  }
  return inspection;
}

// Number of images of each class: "name": count.
template <typename Dataset>
InspectionJson class_counts(const Dataset& images, std::size_t classes) {
  std::vector<std::int64_t> counts(classes);
  for (std::int64_t i = 0; i < images.size(); ++i)
    ++counts[static_cast<std::size_t>(images.label(i))];
  const auto& names = images.class_names();
  InspectionJson json;
  for (std::size_t i = 0; i < classes; ++i)
    json[i < names.size() ? names[i] : fmt::to_string(i)] = counts[i];
  return json;
}

InspectionJson inspect_image(const fs::path& path) {
  std::vector<std::byte> bytes;
  read_image_file(path, bytes);
  const auto image = decode_image(bytes, path.string());
  auto inspection = new_inspection(
      path, fmt::format("image, {}", image_format_name(*image_format_of_content(bytes))),
      bytes.size());
  inspection["arrays"].push_back(bytes_json("pixels", {image.height, image.width, 3}));
  return inspection;
}

InspectionJson inspect_cifar10_folder(const fs::path& path) {
  auto inspection = new_inspection(path, data_formats::cifar10, bytes_of(path));
  for (const auto split : {Split::train, Split::validation}) {
    const Cifar10Dataset dataset(path, split);
    const std::string name = split == Split::train ? "training" : "validation";
    inspection["arrays"].push_back(
        bytes_json(name, {dataset.size(), 3, cifar10_side, cifar10_side}));
    inspection["facts"][name + " images by class"] = class_counts(dataset, cifar10_classes);
  }
  return inspection;
}

InspectionJson inspect_image_folder(const fs::path& path) {
  constexpr std::int64_t most_decoded = 64;
  const ImageFolderDataset dataset(path);
  auto inspection = new_inspection(path, data_formats::image_folder, bytes_of(path));
  Range heights, widths;
  std::vector<std::byte> bytes;
  const auto decoded = std::min(most_decoded, dataset.size());
  for (std::int64_t i = 0; i < decoded; ++i) {
    const auto file = dataset.path(i * dataset.size() / decoded);
    read_image_file(file, bytes);
    const auto image = decode_image(bytes, file.string());
    heights.add(static_cast<double>(image.height));
    widths.add(static_cast<double>(image.width));
  }
  inspection["arrays"].push_back(bytes_json("images", {dataset.size()}));
  inspection["facts"] = {{"images by class", class_counts(dataset, dataset.class_names().size())},
                         {"images decoded for sizes", decoded},
                         {"heights", {heights.least, heights.most}},
                         {"widths", {widths.least, widths.most}}};
  if (auto left_out = left_out_text(dataset.listing()); !left_out.empty())
    inspection["advice"].push_back(std::move(left_out));
  return inspection;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Inspects one IDX file, or those of a folder.
InspectionJson inspect_idx(const fs::path& path, const std::vector<fs::path>& files,
                           bool reads_numbers) {
  auto inspection = new_inspection(path, files.front() == path ? "IDX" : data_formats::idx_folder,
                                   bytes_of(path));
  for (const auto& file : files) {
    const auto array = read_idx(file);
    Ranges ranges;
    if (reads_numbers) {
      ranges = {{.name = "all"}};
      add_numbers<std::uint8_t>(ranges, array.bytes);
    }
    inspection["arrays"].push_back(bytes_json(file.filename().string(), array.dimensions, ranges));
  }
  return inspection;
}

InspectionJson inspect_safetensors(const fs::path& path) {
  const auto listing = [&] {
    try {
      return list_safetensors(path);
    } catch (const Error& error) {  // the file is the user's
      throw InputError(error.what());
    }
  }();
  auto inspection = new_inspection(path, "safetensors", fs::file_size(path));
  std::int64_t numbers = 0;
  for (const auto& tensor : listing.tensors) {
    std::int64_t count = 1;
    for (const auto size : tensor.shape) count *= size;
    numbers += count;
    const auto type = tensor.is_readable() ? c10::toString(tensor.dtype) : tensor.type_name;
    inspection["arrays"].push_back(array_json(tensor.name, {.type = type, .shape = tensor.shape}));
  }
  auto& facts = inspection["facts"];
  facts["tensors"] = listing.tensors.size();
  facts["numbers"] = numbers;
  return inspection;
}

InspectionJson inspect_folder(const fs::path& path, bool reads_numbers) {
  const auto arrays = ArrayCollection(path).names();
  if (holds(arrays, "inputs")) return inspect_arrays(path, reads_numbers);
  if (is_there(path / cifar10_batch_files(Split::validation).front()) ||
      is_there(path / "cifar-10-batches-bin")) {
    return inspect_cifar10_folder(path);
  }
  const auto files = idx_files_in(mnist_folder(path));
  if (!files.empty()) return inspect_idx(path, files, reads_numbers);
  return arrays.empty() ? inspect_image_folder(path) : inspect_arrays(path, reads_numbers);
}

}  // namespace

InspectionJson inspect(const fs::path& path, bool reads_numbers) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return inspect_folder(path, reads_numbers);
  if (!is_there(path) && is_there(npy_data_file(path))) return inspect_box(path, reads_numbers);
  std::array<std::byte, 64> bytes{};
  const auto file = open_input_file(path, "data");
  const auto beginning = std::span(bytes).first(read_up_to(file.get(), bytes, path));
  const std::string_view text(reinterpret_cast<const char*>(beginning.data()), beginning.size());
  if (is_npy(beginning)) {
    auto inspection = new_inspection(path, ".npy array", fs::file_size(path));
    add_array(inspection, path.filename().string(), *open_npy_array(path), reads_numbers);
    return inspection;
  }
  if (is_hdf5_file(path)) {
    const auto arrays = list_hdf5_arrays(path);
    const bool is_box =
        !holds(arrays, "inputs") && (holds(arrays, "Nbody") || holds(arrays, "Hydro"));
    return is_box ? inspect_box(path, reads_numbers) : inspect_arrays(path, reads_numbers);
  }
  const bool is_idx = text.starts_with(std::string_view("\0\0", 2)) && text.size() > 2 &&
                      text[2] >= 8 && text[2] <= 14;
  if (text.starts_with("\x1f\x8b") || is_idx) return inspect_idx(path, {path}, reads_numbers);
  if (image_format_of_content(beginning)) return inspect_image(path);
  const auto content = content_of_file(path);
  if (content.kind == FileKind::safetensors) return inspect_safetensors(path);
  const auto said = other_file_text(content, "");
  throw InputError(fmt::format("data: {} ({} bytes) is of no format that is read: {}{}{}",
                               path.string(), fs::file_size(path), inspected_formats,
                               said.empty() ? "" : "; ", said));
}

}  // namespace kolo
