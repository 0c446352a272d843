#include "kolo/data/cifar10.h"

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> training_files = {"data_batch_1.bin", "data_batch_2.bin",
                                                            "data_batch_3.bin", "data_batch_4.bin",
                                                            "data_batch_5.bin"};
constexpr std::array<std::string_view, 1> validation_files = {"test_batch.bin"};
constexpr std::string_view inner_folder = "cifar-10-batches-bin";
constexpr std::int64_t cifar100_row_bytes = 3074;
constexpr std::string_view binary_version =
    "expected the binary version (cifar-10-binary.tar.gz; kolo data fetch cifar10 gets it)";

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw InputError(
      fmt::format("data: cannot read {} as CIFAR-10 records: {}", file.string(), what));
}

bool is_there(const fs::path& path) {
  std::error_code ignored;  // what can't be inspected is as good as missing
  return fs::exists(path, ignored);
}

constexpr std::string_view how_to_get =
    "kolo data fetch cifar10 -o DIR gets them, kolo data cifar10 --from fashion-mnist -o DIR makes "
    "a stand-in";

// Hint for a folder without batches.
std::string hint_for(const fs::path& folder) {
  if (!is_there(folder)) return fmt::format("; there is no such folder: {}", how_to_get);
  for (const auto& place : {folder, folder / "cifar-10-batches-py"}) {
    if (is_there(place / "data_batch_1") || is_there(place / "test_batch")) {
      return fmt::format("; {} holds the Python version (pickled), {}", place.string(),
                         binary_version);
    }
  }
  if (is_there(folder / "train.bin") || is_there(folder / "cifar-100-binary")) {
    return "; this looks like CIFAR-100, which has other records";
  }
  return fmt::format("; the folder is expected to hold {} to {}, {} (or a folder {} with them): {}",
                     training_files.front(), training_files.back(), validation_files.front(),
                     inner_folder, how_to_get);
}

fs::path find_batches(const fs::path& folder, Split split) {
  const auto files = cifar10_batch_files(split);
  const auto has_any = [&](const fs::path& place) {
    return std::ranges::any_of(files,
                               [&](std::string_view name) { return is_there(place / name); });
  };
  const auto place =
      !has_any(folder) && has_any(folder / inner_folder) ? folder / inner_folder : folder;
  for (const auto name : files) {
    if (is_there(place / name)) continue;
    throw InputError(
        fmt::format("data: no file {} in {}{}", name, place.string(), hint_for(folder)));
  }
  return place;
}

// Number of records that a file of so many bytes holds.
std::int64_t checked_rows(const fs::path& file, std::int64_t bytes) {
  constexpr auto record = static_cast<std::int64_t>(cifar10_row_bytes);
  if (bytes == 0) fail(file, "the file is empty, expected 3073 bytes an image");
  if (bytes % record == 0) return bytes / record;
  fail(file, fmt::format("the size is {} bytes, expected a multiple of 3073 ({} and {} more){}",
                         bytes, bytes - bytes % record, bytes % record,
                         bytes % cifar100_row_bytes == 0
                             ? "; it is a multiple of 3074, so it may be CIFAR-100"
                             : ""));
}

// Checks records, which begin with record `first` of a file.
void check_labels(const fs::path& file, std::int64_t first, std::span<const std::uint8_t> records) {
  for (std::size_t offset = 0; offset < records.size(); offset += cifar10_row_bytes) {
    if (records[offset] < cifar10_classes) continue;
    const auto image = static_cast<std::size_t>(first) + offset / cifar10_row_bytes;
    fail(file, fmt::format("the label of image {} at offset {} is {}, expected 0 to 9", image,
                           image * cifar10_row_bytes, records[offset]));
  }
}

std::int64_t count_rows(const fs::path& file) {
  return checked_rows(file, size_in_bytes(open_input_file(file, "data"), file));
}

// Some records of a file, by its own numbers.
void read_rows(const fs::path& file, std::int64_t first, std::span<std::uint8_t> records) {
  constexpr auto record = static_cast<std::int64_t>(cifar10_row_bytes);
  const auto input = open_input_file(file, "data");
  if (::lseek(input.get(), first * record, SEEK_SET) < 0) {
    throw Error(system_error_text(fmt::format("data: cannot go through {}", file.string()), errno));
  }
  const auto found = read_up_to(input.get(), std::as_writable_bytes(records), file);
  if (found < records.size()) {
    const auto begin = static_cast<std::size_t>(first * record);
    fail(file, fmt::format("it ended at offset {}, expected {} bytes", begin + found,
                           begin + records.size()));
  }
  check_labels(file, first, records);
}

std::vector<std::string> read_class_names(const fs::path& file) {
  constexpr std::size_t most_bytes = 4096;
  if (!is_there(file))
    return {"airplane", "automobile", "bird",  "cat",  "deer",
            "dog",      "frog",       "horse", "ship", "truck"};
  std::string text(most_bytes + 1, '\0');
  const auto input = open_input_file(file, "data");
  text.resize(read_up_to(input.get(), std::as_writable_bytes(std::span(text)), file));
  if (text.size() > most_bytes) {
    throw InputError(fmt::format("data: {} is longer than {} bytes, expected ten class names",
                                 file.string(), most_bytes));
  }
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (std::ssize(names) != cifar10_classes) {
    throw InputError(fmt::format("data: {} has {} names, expected {}, one a line", file.string(),
                                 names.size(), cifar10_classes));
  }
  return names;
}

constexpr float most_of_pixel = 255;

}  // namespace

std::span<const std::string_view> cifar10_batch_files(Split split) {
  if (split == Split::train) return training_files;
  return validation_files;
}

// Records of a split, in the memory of the load.
struct Cifar10Dataset::Rows {
  struct BatchFile {
    fs::path path;
    std::int64_t first = 0, count = 0;  // of the split's records
  };

  Rows(const fs::path& folder, Split split) {
    for (const auto name : cifar10_batch_files(split)) {
      files.push_back({folder / name, size, count_rows(folder / name)});
      size = checked_add(size, files.back().count);
    }
  }

  void read(const std::shared_ptr<std::byte>& to, int part, int parts) {
    const auto begin = size * part / parts, end = size * (part + 1) / parts;
    auto* const all = reinterpret_cast<std::uint8_t*>(to.get());
    for (const auto& file : files) {
      const auto first = std::max(begin, file.first), last = std::min(end, file.first + file.count);
      if (first >= last) continue;
      read_rows(file.path, first - file.first,
                {all + static_cast<std::size_t>(first) * cifar10_row_bytes,
                 static_cast<std::size_t>(last - first) * cifar10_row_bytes});
    }
    memory = to;
  }

  std::vector<BatchFile> files;
  std::int64_t size = 0;
  std::shared_ptr<const std::byte> memory;
};

Cifar10Dataset::Cifar10Dataset(const fs::path& folder, Split split, bool loads_later)
    : layout_{{3, cifar10_side, cifar10_side}, cifar10_classes, {}} {
  const auto place = find_batches(folder, split);
  rows_ = std::make_shared<Rows>(place, split);
  class_names_ = read_class_names(place / cifar10_names_file);
  MemoryLoad load{checked_multiply(narrow<std::size_t>(size()), cifar10_row_bytes),
                  [records = rows_](const auto& memory, int part, int parts) {
                    records->read(memory, part, parts);
                  }};
  load_ = load_later_or_now(std::move(load), loads_later);
}

std::int64_t Cifar10Dataset::size() const {
  return rows_->size;
}

std::span<const std::uint8_t> Cifar10Dataset::record(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw Error(fmt::format("data: sample {} of a dataset of {}", index, size()));
  const auto& memory = rows_->memory;
  if (!memory) throw Error("data: a sample of CIFAR-10 is read before the images are loaded");
  const auto* const all = reinterpret_cast<const std::uint8_t*>(memory.get());
  return {all + static_cast<std::size_t>(index) * cifar10_row_bytes, cifar10_row_bytes};
}

void Cifar10Dataset::read(std::int64_t index, std::int64_t /*epoch*/,
                          const SampleSpans& place) const {
  check_read(index, place, cifar10_pixel_bytes, 1);
  const auto bytes = pixels(index);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    place.input[i] = static_cast<float>(bytes[i]) / most_of_pixel;
  place.label[0] = label(index);
}

std::optional<float> Cifar10Dataset::byte_divisor() const {
  return most_of_pixel;
}

void Cifar10Dataset::read_bytes(std::int64_t index, std::span<std::uint8_t> input,
                                std::span<std::int64_t> label) const {
  std::ranges::copy(pixels(index), input.begin());
  label[0] = this->label(index);
}

}  // namespace kolo
