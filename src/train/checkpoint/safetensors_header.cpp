#include "train/checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json_value.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// Keeps the order of the keys, which is the order of the tensors.
using Json = nlohmann::ordered_json;

struct DtypeName {
  std::string_view name;
  c10::ScalarType dtype;
};

constexpr std::array<DtypeName, 10> dtype_names{{{"F64", c10::ScalarType::Double},
                                                 {"F32", c10::ScalarType::Float},
                                                 {"F16", c10::ScalarType::Half},
                                                 {"BF16", c10::ScalarType::BFloat16},
                                                 {"I64", c10::ScalarType::Long},
                                                 {"I32", c10::ScalarType::Int},
                                                 {"I16", c10::ScalarType::Short},
                                                 {"I8", c10::ScalarType::Char},
                                                 {"U8", c10::ScalarType::Byte},
                                                 {"BOOL", c10::ScalarType::Bool}}};
constexpr const char* dtype_list = "F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL";

const Json& field_of(const SafetensorsLocation& location, const Json& description) {
  const auto field = description.find(std::string(location.field));
  if (field == description.end()) fail_safetensors(location, "is missing");
  return *field;
}

void parse_dtype(const SafetensorsLocation& location, const Json& value, SafetensorsEntry& entry) {
  if (!value.is_string())
    fail_safetensors(location, fmt::format("is {}, expected a string", value.type_name()));
  entry.type_name = value.get<std::string>();
  const auto* const known = std::ranges::find(dtype_names, entry.type_name, &DtypeName::name);
  entry.dtype = known == dtype_names.end() ? c10::ScalarType::Undefined : known->dtype;
}

// Zero-size dimensions count as one while the product is checked: LibTorch computes strides so.
std::uint64_t byte_size(std::span<const std::int64_t> shape, std::uint64_t element_size) {
  std::uint64_t padded = element_size;
  bool is_empty = false;
  for (const std::int64_t dimension : shape) {
    is_empty = is_empty || dimension == 0;
    padded =
        checked_multiply(padded, static_cast<std::uint64_t>(std::max<std::int64_t>(dimension, 1)));
  }
  (void)narrow<std::int64_t>(padded);
  return is_empty ? 0 : padded;
}

// Bytes of a tensor; nothing where its type is one that LibTorch lacks. The count of its numbers is
// checked all the same.
std::optional<std::uint64_t> size_of_entry(const SafetensorsEntry& entry) {
  if (entry.is_readable()) return safetensors_byte_size(entry.shape, entry.dtype);
  (void)byte_size(entry.shape, 1);
  return std::nullopt;
}

std::vector<std::int64_t> parse_numbers(const SafetensorsLocation& location, const Json& value) {
  if (!value.is_array())
    fail_safetensors(location, fmt::format("is {}, expected a list", value.type_name()));
  std::vector<std::int64_t> numbers;
  for (const auto& element : value) {
    if (!element.is_number_unsigned() ||
        !std::in_range<std::int64_t>(element.get<std::uint64_t>())) {
      fail_safetensors(location,
                       fmt::format("holds {}, expected whole numbers from 0 to 2^63 - 1",
                                   element.dump(-1, ' ', true, Json::error_handler_t::replace)));
    }
    numbers.push_back(element.get<std::int64_t>());
  }
  return numbers;
}

void parse_offsets(const SafetensorsLocation& location, const Json& value, std::uint64_t data_size,
                   SafetensorsEntry& entry) {
  const auto offsets = parse_numbers(location, value);
  if (offsets.size() != 2)
    fail_safetensors(location, fmt::format("has {} numbers, expected 2", offsets.size()));
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  if (entry.begin > entry.end)
    fail_safetensors(location, fmt::format("[{}, {}] runs backwards", entry.begin, entry.end));
  if (entry.end > data_size)
    fail_safetensors(location, fmt::format("[{}, {}] ends after the file's {} bytes of data",
                                           entry.begin, entry.end, data_size));
}

SafetensorsEntry parse_entry(const std::filesystem::path& path, const std::string& name,
                             const Json& description, std::uint64_t data_size) {
  if (!description.is_object())
    fail_safetensors({path, name},
                     fmt::format("is {}, expected an object", description.type_name()));
  SafetensorsEntry entry;
  entry.name = name;
  const SafetensorsLocation dtype{path, name, "dtype"};
  parse_dtype(dtype, field_of(dtype, description), entry);
  const SafetensorsLocation shape{path, name, "shape"};
  entry.shape = parse_numbers(shape, field_of(shape, description));
  const SafetensorsLocation offsets{path, name, "data_offsets"};
  parse_offsets(offsets, field_of(offsets, description), data_size, entry);

  std::optional<std::uint64_t> expected;
  try {
    expected = size_of_entry(entry);
  } catch (const Error& error) {
    fail_safetensors(shape, fmt::format("[{}]: {}", fmt::join(entry.shape, ", "), error.what()));
  }
  if (expected && entry.end - entry.begin != *expected)
    fail_safetensors(offsets, fmt::format("[{}, {}] spans {} bytes, but the shape [{}] takes {}",
                                          entry.begin, entry.end, entry.end - entry.begin,
                                          fmt::join(entry.shape, ", "), *expected));
  return entry;
}

void check_coverage(const std::filesystem::path& path, std::span<const SafetensorsEntry> entries,
                    std::uint64_t data_size) {
  std::uint64_t covered = 0;
  for (const std::size_t index : order_of_data(entries)) {
    const auto& entry = entries[index];
    if (entry.begin != covered)
      fail_safetensors(
          {path, entry.name, "data_offsets"},
          fmt::format("[{}, {}] {} the data before it, which ends at {}", entry.begin, entry.end,
                      entry.begin < covered ? "overlaps" : "leaves a hole after", covered));
    covered = entry.end;
  }
  if (covered != data_size)
    fail_safetensors({path},
                     fmt::format("{} bytes of data follow the header, but its tensors take {}",
                                 data_size, covered));
}

std::string_view name_of_dtype(const SafetensorsLocation& location, c10::ScalarType dtype) {
  for (const auto& candidate : dtype_names)
    if (candidate.dtype == dtype) return candidate.name;
  fail_safetensors(location, fmt::format("is {}, which the format can't hold (accepted: {})",
                                         c10::toString(dtype), dtype_list));
}

}  // namespace

std::uint64_t safetensors_byte_size(std::span<const std::int64_t> shape, c10::ScalarType dtype) {
  return byte_size(shape, c10::elementSize(dtype));
}

void require_readable(const std::filesystem::path& path, const SafetensorsEntry& entry) {
  if (entry.is_readable()) return;
  fail_safetensors({path, entry.name, "dtype"},
                   fmt::format("is \"{}\", expected one of {}", entry.type_name, dtype_list));
}

void fail_safetensors(const SafetensorsLocation& location, const std::string& problem) {
  std::string message = fmt::format("safetensors: {}: ", location.path.string());
  if (!location.tensor.empty()) message += fmt::format("tensor \"{}\" ", location.tensor);
  if (!location.field.empty()) message += fmt::format("field \"{}\" ", location.field);
  throw Error(message + problem);
}

std::string format_safetensors_header(const std::filesystem::path& path,
                                      std::span<const SafetensorsEntry> entries) {
  Json header = Json::object();
  for (const auto& entry : entries) {
    Json& description = header[entry.name];
    description["dtype"] = std::string(name_of_dtype({path, entry.name, "dtype"}, entry.dtype));
    description["shape"] = entry.shape;
    description["data_offsets"] = {entry.begin, entry.end};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& error) {
    fail_safetensors({path}, fmt::format("a name is not valid UTF-8: {}", in_plain_words(error)));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

std::vector<std::size_t> order_of_data(std::span<const SafetensorsEntry> entries) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(entries[a].begin, entries[a].end) < std::tie(entries[b].begin, entries[b].end);
  });
  return order;
}

namespace {

// Parses and checks a header whose data takes `data_size` bytes.
SafetensorsListing parse_header(const std::filesystem::path& path, std::string_view text,
                                std::uint64_t data_size) {
  Json header;
  try {
    header = Json::parse(text);
  } catch (const Json::parse_error& error) {  // quotes what it has read, whatever that is
    fail_safetensors({path}, fmt::format("the header is not valid JSON at byte {}", error.byte));
  } catch (const Json::exception& error) {
    fail_safetensors({path},
                     fmt::format("the header is not valid JSON: {}", in_plain_words(error)));
  }
  if (!header.is_object())
    fail_safetensors({path},
                     fmt::format("the header is {}, expected an object", header.type_name()));
  SafetensorsListing listing;
  for (const auto& [name, description] : header.items()) {
    if (name != safetensors_metadata_key)
      listing.tensors.push_back(parse_entry(path, name, description, data_size));
  }
  check_coverage(path, listing.tensors, data_size);
  return listing;
}

}  // namespace

SafetensorsListing read_safetensors_header(const FileDescriptor& file,
                                           const std::filesystem::path& path,
                                           std::uint32_t* crc32) {
  const auto file_size = static_cast<std::uint64_t>(size_in_bytes(file, path));
  std::uint64_t header_size = 0;
  if (read_up_to(file.get(), std::as_writable_bytes(std::span(&header_size, 1)), path) !=
      safetensors_prefix_size) {
    fail_safetensors({path},
                     fmt::format("has {} bytes, too few for the header's length", file_size));
  }
  if (header_size > file_size - safetensors_prefix_size)
    fail_safetensors({path},
                     fmt::format("the header's length is {} bytes, but the file has {} in all",
                                 header_size, file_size));
  if (header_size > safetensors_header_limit)
    fail_safetensors({path}, fmt::format("the header's length is {} bytes, expected at most {}",
                                         header_size, safetensors_header_limit));
  std::string text(header_size, '\0');
  if (read_up_to(file.get(), std::as_writable_bytes(std::span(text)), path) != header_size)
    fail_safetensors({path}, "ends within the header");
  if (crc32 != nullptr) {
    *crc32 = checksum(0, std::as_bytes(std::span(&header_size, 1)));
    *crc32 = checksum(*crc32, std::as_bytes(std::span(text)));
  }
  const std::uint64_t data_offset = safetensors_prefix_size + header_size;
  auto listing = parse_header(path, text, file_size - data_offset);
  listing.data_offset = data_offset;
  return listing;
}

SafetensorsListing list_safetensors(const std::filesystem::path& path) {
  return read_safetensors_header(open_regular_file(path), path);
}

}  // namespace kolo
