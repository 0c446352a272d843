#include "kolo/tools/inspection.h"

#include <algorithm>
#include <array>
#include <map>
#include <ostream>
#include <span>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/natural_order.h"
#include "data/array_collection.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/file_kind.h"
#include "kolo/data/array_file.h"
#include "kolo/data/box_files.h"
#include "kolo/data/cifar10.h"
#include "kolo/data/image.h"
#include "kolo/data/image_folder.h"
#include "kolo/data/mnist.h"
#include "kolo/train/checkpoint/safetensors.h"
#include "kolo/train/observe/format.h"
#include "tools/inspect_arrays.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

std::string lengths(const InspectionJson& shape) {
  const auto text = fmt::to_string(fmt::join(shape.get<std::vector<std::int64_t>>(), " x "));
  return text.empty() ? "one number" : text;
}

std::string cell_text(const InspectionJson& number) {
  return number.is_null() ? "-" : fmt::format("{:.6g}", number.get<double>());
}

void print_array(const InspectionJson& array, std::ostream& out) {
  const auto text = [](const InspectionJson& json) { return json.get<std::string>(); };
  out << fmt::format("  {:10} {} of {}", text(array["name"]), lengths(array["shape"]),
                     text(array["type"]));
  if (!array["chunk"].empty()) out << fmt::format(", in chunks of {}", lengths(array["chunk"]));
  for (const auto& filter : array["filters"]) out << fmt::format(", {}", text(filter));
  out << "\n";
  if (array["channels"].empty()) return;
  constexpr auto row = "    {:10} {:>12} {:>12} {:>12}";
  out << fmt::format(fmt::runtime(row), "", "min", "max", "mean") << "\n";
  for (const auto& channel : array["channels"]) {
    out << fmt::format(fmt::runtime(row), text(channel["name"]), cell_text(channel["min"]),
                       cell_text(channel["max"]), cell_text(channel["mean"]));
    for (const auto& [key, words] :
         {std::pair("not_finite", "not finite"), std::pair("beyond_float32", "beyond float32")}) {
      const auto count = channel[key].get<std::int64_t>();
      if (count > 0) out << fmt::format("  {} {}", format_count(count), words);
    }
    out << "\n";
  }
}

Ranges colour_ranges() {
  return {{"red", {}}, {"green", {}}, {"blue", {}}};
}

// Counts of images by class: "name": count.
InspectionJson class_counts(const std::vector<std::string>& names,
                            const std::vector<std::int64_t>& counts) {
  InspectionJson json;
  for (std::size_t i = 0; i < counts.size(); ++i)
    json[i < names.size() ? names[i] : fmt::to_string(i)] = counts[i];
  return json;
}

InspectionJson inspect_image(const fs::path& path) {
  std::vector<std::byte> bytes;
  read_image_file(path, bytes);
  const auto format = image_format_of_content(bytes).value();
  const auto image = decode_image(bytes, path.string());
  auto inspection =
      new_inspection(path, fmt::format("image, {}", image_format_name(format)), bytes.size());
  auto ranges = colour_ranges();
  add_numbers<std::uint8_t>(ranges, image.pixels);
  inspection["arrays"].push_back(
      array_json("pixels", "uint8", {image.height, image.width, 3}, ranges));
  const auto named = image_format_of_name(path);
  if (named && *named != format) {
    inspection["advice"].push_back(fmt::format("its name says {}, its content is {}",
                                               image_format_name(*named),
                                               image_format_name(format)));
  }
  return inspection;
}

InspectionJson inspect_cifar10_batch(const fs::path& path) {
  const auto bytes = read_text_file(path);
  const auto records = bytes.size() / cifar10_record_bytes;
  auto inspection = new_inspection(path, "CIFAR-10 batch, binary", bytes.size());
  auto ranges = colour_ranges();
  std::vector<std::int64_t> counts(cifar10_classes);
  for (std::size_t record = 0; record < records; ++record) {
    const auto* const at =
        reinterpret_cast<const std::uint8_t*>(bytes.data()) + record * cifar10_record_bytes;
    ++counts.at(at[0]);
    add_numbers<std::uint8_t>(ranges, {at + 1, cifar10_pixel_bytes}, cifar10_pixel_bytes / 3);
  }
  inspection["arrays"].push_back(
      array_json("pixels", "uint8",
                 {static_cast<std::int64_t>(records), 3, cifar10_side, cifar10_side}, ranges));
  inspection["facts"]["images by label"] = class_counts({}, counts);
  return inspection;
}

InspectionJson inspect_cifar10_folder(const fs::path& path) {
  auto inspection = new_inspection(path, "CIFAR-10, binary", 0);
  std::uint64_t bytes = 0;
  for (const auto split : {Split::train, Split::validation}) {
    const Cifar10Dataset dataset(path, split);
    const std::string name = split == Split::train ? "training" : "validation";
    auto ranges = colour_ranges();
    std::vector<std::int64_t> counts(cifar10_classes);
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      ++counts[static_cast<std::size_t>(dataset.label(i))];
      add_numbers(ranges, dataset.pixels(i), cifar10_pixel_bytes / 3);
    }
    bytes += static_cast<std::uint64_t>(dataset.size()) * cifar10_record_bytes;
    inspection["arrays"].push_back(
        array_json(name, "uint8", {dataset.size(), 3, cifar10_side, cifar10_side}, ranges));
    inspection["facts"][name + " images by class"] = class_counts(dataset.class_names(), counts);
  }
  inspection["bytes"] = bytes;
  return inspection;
}

InspectionJson inspect_image_folder(const fs::path& path) {
  constexpr std::int64_t most_decoded = 64;
  const ImageFolderDataset dataset(path);
  std::vector<std::int64_t> counts(dataset.class_names().size());
  std::map<std::string, std::int64_t> formats;
  std::uint64_t all_bytes = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    ++counts[static_cast<std::size_t>(dataset.label(i))];
    all_bytes += fs::file_size(dataset.path(i));
    ++formats[std::string(image_format_name(image_format_of_name(dataset.path(i)).value()))];
  }
  auto inspection = new_inspection(path, "folder of images", all_bytes);
  auto ranges = colour_ranges();
  Range heights, widths;
  std::vector<std::byte> bytes;
  const auto decoded = std::min(most_decoded, dataset.size());
  for (std::int64_t i = 0; i < decoded; ++i) {
    const auto file = dataset.path(i * dataset.size() / decoded);
    read_image_file(file, bytes);
    const auto image = decode_image(bytes, file.string());
    heights.add(static_cast<double>(image.height));
    widths.add(static_cast<double>(image.width));
    add_numbers<std::uint8_t>(ranges, image.pixels);
  }
  inspection["arrays"].push_back(array_json("images", "uint8", {dataset.size()}, ranges));
  auto& facts = inspection["facts"];
  facts["images by class"] = class_counts(dataset.class_names(), counts);
  facts["formats"] = formats;
  facts["images decoded for sizes and ranges"] = decoded;
  facts["heights"] = {heights.least, heights.most};
  facts["widths"] = {widths.least, widths.most};
  auto& advice = inspection["advice"];
  if (auto left_out = left_out_text(dataset.listing()); !left_out.empty())
    advice.push_back(std::move(left_out));
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (*most > 10 * *least) {
    advice.push_back(
        fmt::format("classes hold between {} and {} images: the rare ones weigh little in the loss",
                    *least, *most));
  }
  return inspection;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// One file of a pair that makes a box, by name and shape.
bool is_half_of_pair(const fs::path& path) {
  const auto name = path.string();
  for (const auto& [ending, other] :
       {std::pair<std::string_view, std::string_view>("_data.npy", "_label.npy"),
        std::pair<std::string_view, std::string_view>("_label.npy", "_data.npy")}) {
    if (!name.ends_with(ending)) continue;
    if (!is_there(name.substr(0, name.size() - ending.size()).append(other))) return false;
    const auto shape = read_npy_header(path).shape;
    return shape.size() == 4 && (shape[3] == nbody_channels || shape[3] == hydro_channels);
  }
  return false;
}

// Whole records, each with a label that CIFAR-10 has: its batches have no signature.
bool is_cifar10_batch(const fs::path& path, std::uint64_t size) {
  if (size == 0 || size % cifar10_record_bytes != 0) return false;
  const auto file = open_regular_file(path);
  std::array<std::byte, cifar10_record_bytes> record{};
  while (read_up_to(file.get(), record, path) == record.size()) {
    if (std::to_integer<int>(record[0]) >= cifar10_classes) return false;
  }
  return true;
}

InspectionJson inspect_idx(const fs::path& path, bool reads_numbers) {
  const auto array = read_idx(path);
  auto inspection = new_inspection(path, "IDX", fs::file_size(path));
  Ranges ranges;
  if (reads_numbers) {
    ranges.emplace_back("all", Range());
    add_numbers<std::uint8_t>(ranges, array.bytes);
  }
  inspection["arrays"].push_back(
      array_json(path.filename().string(), "uint8", array.dimensions, ranges));
  return inspection;
}

// MNIST and its kin: files named ...-ubyte, plain or .gz, side by side.
std::vector<fs::path> idx_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_idx_name(entry.path().filename().native())) files.push_back(entry.path());
  std::ranges::sort(files, comes_before, [](const fs::path& file) { return file.native(); });
  return files;
}

InspectionJson inspect_idx_files(const fs::path& folder, const std::vector<fs::path>& files,
                                 bool reads_numbers) {
  auto all = new_inspection(folder, "folder of IDX files", 0);
  std::uint64_t bytes = 0;
  for (const auto& file : files) {
    const auto one = inspect_idx(file, reads_numbers);
    bytes += one["bytes"].get<std::uint64_t>();
    all["arrays"].push_back(one["arrays"].front());
  }
  all["bytes"] = bytes;
  return all;
}

InspectionJson inspect_safetensors(const fs::path& path) {
  const auto listing = [&] {
    try {
      return list_safetensors(path);
    } catch (const InputError&) {
      throw;
    } catch (const Error& error) {
      throw InputError(error.what());
    }
  }();
  auto inspection = new_inspection(path, "safetensors", fs::file_size(path));
  std::int64_t numbers = 0;
  for (const auto& tensor : listing.tensors) {
    std::int64_t count = 1;
    for (const auto size : tensor.shape) count *= size;
    numbers += count;
    inspection["arrays"].push_back(array_json(
        tensor.name, tensor.is_readable() ? c10::toString(tensor.dtype) : tensor.type_name,
        tensor.shape));
  }
  const auto unread = std::ranges::count(listing.tensors, false, &SafetensorsEntry::is_readable);
  if (unread > 0) {
    inspection["advice"].push_back(fmt::format(
        "{} tensor{} of types that can't be read into a network", unread, unread == 1 ? "" : "s"));
  }
  auto& facts = inspection["facts"];
  facts["tensors"] = listing.tensors.size();
  facts["numbers"] = numbers;
  for (const auto& [name, value] : listing.metadata) facts[name] = value;
  return inspection;
}

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

InspectionJson inspect_folder(const fs::path& path, bool reads_numbers) {
  const auto arrays = ArrayCollection(path).names();
  if (holds(arrays, "inputs")) return inspect_array_samples(path, reads_numbers);
  if (is_there(path / cifar10_batch_files(Split::validation).front()) ||
      is_there(path / "cifar-10-batches-bin")) {
    return inspect_cifar10_folder(path);
  }
  const auto files = idx_files_in(mnist_folder(path));
  if (!files.empty()) return inspect_idx_files(path, files, reads_numbers);
  return arrays.empty() ? inspect_image_folder(path) : inspect_arrays(path, reads_numbers);
}

InspectionJson inspect_hdf5(const fs::path& path, bool reads_numbers) {
  const auto arrays = list_hdf5_arrays(path);
  if (holds(arrays, "inputs")) return inspect_array_samples(path, reads_numbers);
  if (holds(arrays, "Nbody") || holds(arrays, "Hydro")) return inspect_box(path, reads_numbers);
  return inspect_arrays(path, reads_numbers);
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
    return is_half_of_pair(path) ? inspect_box(path, reads_numbers)
                                 : inspect_npy(path, reads_numbers);
  }
  if (is_hdf5_file(path)) return inspect_hdf5(path, reads_numbers);
  const bool is_idx = text.starts_with(std::string_view("\0\0", 2)) && text.size() > 2 &&
                      text[2] >= 8 && text[2] <= 14;
  if (text.starts_with("\x1f\x8b") || is_idx) return inspect_idx(path, reads_numbers);
  if (image_format_of_content(beginning)) return inspect_image(path);
  const auto content = content_of_file(path);
  const auto size = fs::file_size(path);
  if (content.kind == FileKind::safetensors) return inspect_safetensors(path);
  if (is_cifar10_batch(path, size)) return inspect_cifar10_batch(path);
  const auto said = other_file_text(content, "");
  throw InputError(fmt::format(
      "data: {} ({} bytes) is of no format that is read: IDX (plain or gzip), CIFAR-10's "
      "binary batches, JPEG, PNG, HDF5, .npy, safetensors{}{}",
      path.string(), size, said.empty() ? "" : "; ", said));
}

void print_inspection(const InspectionJson& inspection, std::ostream& out) {
  out << fmt::format("{}: {}, {}\n", inspection["path"].get<std::string>(),
                     inspection["format"].get<std::string>(),
                     format_bytes(inspection["bytes"].get<std::uint64_t>()));
  for (const auto& array : inspection["arrays"]) print_array(array, out);
  for (const auto& [name, value] : inspection["facts"].items()) {
    // The user's own text may be no UTF-8.
    constexpr auto replace = InspectionJson::error_handler_t::replace;
    out << fmt::format(
        "  {}: {}\n", name,
        value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, replace));
  }
  for (const auto& advice : inspection["advice"])
    out << fmt::format("  ! {}\n", advice.get<std::string>());
}

}  // namespace kolo
