#include "kolo/tools/inspection.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <system_error>

#include <fmt/format.h>

#include "base/natural_order.h"
#include "data/array_collection.h"
#include "tools/kinds.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/file_kind.h"
#include "kolo/train/checkpoint/safetensors.h"
#include "kolo/data/array_file.h"
#include "kolo/data/box_files.h"
#include "kolo/data/cifar10.h"
#include "kolo/data/idx.h"
#include "kolo/data/image.h"
#include "kolo/data/mnist.h"
#include "kolo/data/npy.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

std::string joined(std::span<const std::int64_t> shape) {
  std::string text;
  for (const auto size : shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", size);
  return text.empty() ? "one number" : text;
}

nlohmann::json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

nlohmann::json to_json(const ArrayInspection& array) {
  nlohmann::json json{{"name", array.name},       {"type", array.type},
                      {"shape", array.shape},     {"chunk", array.chunk},
                      {"filters", array.filters}, {"channels", nlohmann::json::array()}};
  for (const auto& [name, range] : array.ranges) {
    json["channels"].push_back({{"name", name},
                                {"min", number_or_null(range.least())},
                                {"max", number_or_null(range.most())},
                                {"mean", number_or_null(range.mean())},
                                {"not_finite", range.not_finite()},
                                {"beyond_float32", range.beyond_float32()}});
  }
  return json;
}

// A dash stands for a range without finite numbers.
std::string cell_text(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "-";
}

void print(const ArrayInspection& array, std::ostream& out) {
  out << fmt::format("  {:10} {} of {}", array.name, joined(array.shape), array.type);
  if (!array.chunk.empty()) out << fmt::format(", in chunks of {}", joined(array.chunk));
  for (const auto& filter : array.filters) out << fmt::format(", {}", filter);
  out << "\n";
  if (array.ranges.empty()) return;
  out << fmt::format("    {:10} {:>12} {:>12} {:>12}\n", "", "min", "max", "mean");
  for (const auto& [name, range] : array.ranges) {
    out << fmt::format("    {:10} {:>12} {:>12} {:>12}", name, cell_text(range.least()),
                       cell_text(range.most()), cell_text(range.mean()));
    if (range.not_finite() > 0) {
      out << fmt::format("  {} not finite", format_count(range.not_finite()));
    }
    if (range.beyond_float32() > 0)
      out << fmt::format("  {} beyond float32", format_count(range.beyond_float32()));
    out << "\n";
  }
}

}  // namespace

void Range::add(double value) {
  if (!std::isfinite(value)) {
    ++not_finite_;
    return;
  }
  if (!std::isfinite(static_cast<float>(value))) ++beyond_float32_;
  least_ = std::min(least_, value);
  most_ = std::max(most_, value);
  sum_ += value;
  ++count_;
}

void Range::add(std::span<const float> values) {
  for (const float value : values) add(static_cast<double>(value));
}

nlohmann::json to_json(const Inspection& inspection) {
  nlohmann::json json{{"path", inspection.path},           {"format", inspection.format},
                      {"bytes", inspection.bytes},         {"arrays", nlohmann::json::array()},
                      {"facts", nlohmann::json::object()}, {"advice", inspection.advice}};
  for (const auto& array : inspection.arrays) json["arrays"].push_back(to_json(array));
  for (const auto& [name, value] : inspection.facts) json["facts"][name] = value;
  return json;
}

void print(const Inspection& inspection, std::ostream& out) {
  out << fmt::format("{}: {}, {}\n", inspection.path, inspection.format,
                     format_bytes(inspection.bytes));
  for (const auto& array : inspection.arrays) print(array, out);
  for (const auto& [name, value] : inspection.facts) {
    // The user's own text may be no UTF-8.
    constexpr auto replace = nlohmann::json::error_handler_t::replace;
    out << fmt::format(
        "  {}: {}\n", name,
        value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, replace));
  }
  for (const auto& advice : inspection.advice) out << fmt::format("  ! {}\n", advice);
}

namespace {

namespace fs = std::filesystem;

template <typename T>
void add_elements(const IdxArray& array, Range& range) {
  for (const T value : array.elements<T>()) range.add(static_cast<double>(value));
}

void add_elements(const IdxArray& array, Range& range) {
  switch (array.header.type) {
    case IdxType::uint8:
      return add_elements<std::uint8_t>(array, range);
    case IdxType::int8:
      return add_elements<std::int8_t>(array, range);
    case IdxType::int16:
      return add_elements<std::int16_t>(array, range);
    case IdxType::int32:
      return add_elements<std::int32_t>(array, range);
    case IdxType::float32:
      return add_elements<float>(array, range);
    case IdxType::float64:
      return add_elements<double>(array, range);
  }
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

// MNIST and its kin: files named ...-ubyte, plain or .gz, side by side.
std::vector<fs::path> idx_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_idx_name(entry.path().filename().native())) files.push_back(entry.path());
  }
  std::ranges::sort(files, comes_before, [](const fs::path& file) { return file.native(); });
  return files;
}

Inspection inspect_idx(const fs::path& path, bool reads_numbers) {
  const auto array = read_idx(path);
  Inspection inspection{.path = path.string(), .format = "IDX", .bytes = fs::file_size(path)};
  ArrayInspection found{.name = path.filename().string(),
                        .type = std::string(idx_type_name(array.header.type)),
                        .shape = array.header.dimensions};
  if (reads_numbers) {
    found.ranges.emplace_back("all", Range());
    add_elements(array, found.ranges.front().second);
  }
  inspection.arrays.push_back(std::move(found));
  return inspection;
}

Inspection inspect_safetensors(const fs::path& path) {
  const auto listing = [&] {
    try {
      return list_safetensors(path);
    } catch (const InputError&) {
      throw;
    } catch (const Error& error) {
      throw InputError(error.what());
    }
  }();
  Inspection inspection{
      .path = path.string(), .format = "safetensors", .bytes = fs::file_size(path)};
  std::int64_t numbers = 0;
  for (const auto& tensor : listing.tensors) {
    std::int64_t count = 1;
    for (const auto size : tensor.shape) count *= size;
    numbers += count;
    inspection.arrays.push_back(
        {.name = tensor.name,
         .type = tensor.is_readable() ? c10::toString(tensor.dtype) : tensor.type_name,
         .shape = tensor.shape});
  }
  const auto unread = std::ranges::count(listing.tensors, false, &SafetensorsEntry::is_readable);
  if (unread > 0) {
    inspection.advice.push_back(fmt::format(
        "{} tensor{} of types that can't be read into a network", unread, unread == 1 ? "" : "s"));
  }
  inspection.facts.emplace_back("tensors", listing.tensors.size());
  inspection.facts.emplace_back("numbers", numbers);
  for (const auto& [name, value] : listing.metadata) inspection.facts.emplace_back(name, value);
  return inspection;
}

Inspection inspect_idx_files(const fs::path& folder, const std::vector<fs::path>& files,
                             bool reads_numbers) {
  Inspection all{.path = folder.string(), .format = "folder of IDX files"};
  for (const auto& file : files) {
    auto one = inspect_idx(file, reads_numbers);
    all.bytes += one.bytes;
    all.arrays.push_back(std::move(one.arrays.front()));
  }
  return all;
}

Inspection inspect_folder(const fs::path& path, bool reads_numbers) {
  const ArrayCollection arrays(path);
  if (arrays.holds("inputs")) return inspect_array_samples(path, reads_numbers);
  if (is_there(path / cifar10_batch_files(Split::validation).front()) ||
      is_there(path / "cifar-10-batches-bin")) {
    return inspect_cifar10_folder(path);
  }
  const auto files = idx_files_in(mnist_folder(path));
  if (!files.empty()) return inspect_idx_files(path, files, reads_numbers);
  return arrays.names().empty() ? inspect_image_folder(path) : inspect_arrays(path, reads_numbers);
}

Inspection inspect_hdf5(const fs::path& path, bool reads_numbers) {
  const ArrayCollection arrays(path);
  if (arrays.holds("inputs")) return inspect_array_samples(path, reads_numbers);
  if (arrays.holds("Nbody") || arrays.holds("Hydro")) return inspect_box(path, reads_numbers);
  return inspect_arrays(path, reads_numbers);
}

std::vector<std::byte> beginning_of(const fs::path& path) {
  try {
    const auto file = open_regular_file(path);
    std::vector<std::byte> bytes(64);
    bytes.resize(read_up_to(file.get(), bytes, path));
    return bytes;
  } catch (const Error& error) {
    throw InputError(fmt::format("data: {}", error.what()));
  }
}

}  // namespace

Inspection inspect(const fs::path& path, bool reads_numbers) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return inspect_folder(path, reads_numbers);
  if (!is_there(path) && is_there(npy_data_file(path))) return inspect_box(path, reads_numbers);
  const auto beginning = beginning_of(path);
  const auto size = fs::file_size(path);
  const auto byte = [&](std::size_t at) {
    return at < beginning.size() ? std::to_integer<int>(beginning[at]) : -1;
  };
  if (is_npy(beginning)) {
    return is_half_of_pair(path) ? inspect_box(path, reads_numbers)
                                 : inspect_npy(path, reads_numbers);
  }
  const auto has = [&](std::string_view magic) {
    return beginning.size() >= magic.size() &&
           std::ranges::equal(std::as_bytes(std::span(magic)),
                              std::span(beginning).first(magic.size()));
  };
  if (is_hdf5_file(path)) return inspect_hdf5(path, reads_numbers);
  if (has("\x1f\x8b") || (byte(0) == 0 && byte(1) == 0 && byte(2) >= 8 && byte(2) <= 14)) {
    return inspect_idx(path, reads_numbers);
  }
  if (image_format_of_content(beginning)) return inspect_image(path);
  const auto content = content_of_file(path);
  if (content.kind == FileKind::safetensors) return inspect_safetensors(path);
  if (is_cifar10_batch(path, size)) return inspect_cifar10_batch(path);
  const auto said = other_file_text(content, "");
  throw InputError(fmt::format(
      "data: {} ({} bytes) is of no format that is read: IDX (plain or gzip), CIFAR-10's "
      "binary batches, JPEG, PNG, HDF5, .npy, safetensors{}{}",
      path.string(), size, said.empty() ? "" : "; ", said));
}

}  // namespace kolo
