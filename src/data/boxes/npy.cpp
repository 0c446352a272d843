#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/data/array_file.h"

namespace kolo {

namespace {

constexpr std::string_view magic("\x93NUMPY", 6);
constexpr std::size_t most_header_bytes = 1 << 20;
constexpr std::size_t most_dimensions = 32;

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw InputError(fmt::format("data: cannot read {} as .npy: {}", file.string(), what));
}

// Text of a file as a message shows it.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 40;
  std::string shown;
  for (const char c : text.substr(0, most)) shown += c >= ' ' && c <= '~' ? c : '?';
  return fmt::format("'{}{}'", shown, text.size() > most ? "..." : "");
}

// Contents of an array of a type that is not read, for messages.
std::string other_contents(std::string_view type) {
  constexpr std::pair<std::string_view, std::string_view> contents_of_kinds[] = {
      {"O", "Python objects"},  {"c", "complex numbers"},
      {"f", "long doubles"},    {"SUa", "text"},
      {"Mm", "dates or times"}, {"V", "raw bytes, as bfloat16's are written"}};
  if (type.starts_with('>')) return ", which is big-endian";
  const auto kind = type.find_first_not_of("<|=");  // after the order of bytes
  for (const auto& [kinds, contents] : contents_of_kinds)
    if (kind != type.npos && kinds.find(type[kind]) != kinds.npos)
      return fmt::format(", which is {}", contents);
  return {};
}

// The header, a Python dictionary, as JSON: no tuples, no commas at the end, no long integers.
std::string as_json(std::string_view text) {
  std::string json;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ')' || c == ']' || c == '}') {
      const auto last = json.find_last_not_of(" \t\r\n");
      if (last != json.npos && json[last] == ',') json.erase(last);
    }
    const auto rest = text.substr(i);
    if (rest.starts_with("True")) {
      json += "true";
      i += 3;
    } else if (rest.starts_with("False")) {
      json += "false";
      i += 4;
    } else if (c != 'L' || i == 0 || text[i - 1] < '0' || text[i - 1] > '9') {
      json += c == '\'' ? '"' : c == '(' ? '[' : c == ')' ? ']' : c;
    }
  }
  return json;
}

// Type that NumPy writes so: "<f4", "|b1"; none for types that are not read.
std::optional<NumberType> number_type_of(std::string_view numpy) {
  if (numpy.size() != 3 || std::string_view("<>|=").find(numpy[0]) == numpy.npos)
    return std::nullopt;
  const NumberType type{.kind = numpy[1], .bytes = numpy[2] - '0'};
  if (numpy[0] == '>' && type.bytes > 1) return std::nullopt;
  const auto is_one_of = [&](std::initializer_list<std::int64_t> sizes) {
    return std::ranges::find(sizes, type.bytes) != sizes.end();
  };
  const bool is_known = type.kind == 'f' ? is_one_of({2, 4, 8})
                        : type.kind == 'b'
                            ? type.bytes == 1
                            : (type.kind == 'i' || type.kind == 'u') && is_one_of({1, 2, 4, 8});
  return is_known ? std::optional(type) : std::nullopt;
}

NumberType read_type(const std::filesystem::path& file, const nlohmann::json& descr) {
  constexpr std::string_view expected =
      "expected floating-point numbers of 16, 32 or 64 bits, or whole ones; write it with "
      ".astype('float32')";
  if (descr.is_array())
    fail(file, fmt::format("descr is a list, so the array holds structures; {}", expected));
  const auto text = descr.is_string() ? descr.get<std::string>() : descr.dump();
  const auto type = number_type_of(text);
  if (!type)
    fail(file, fmt::format("descr is {}{}; {}", in_quotes(text), other_contents(text), expected));
  return *type;
}

// All but the offset of the numbers. The header has the keys descr, fortran_order and shape.
NpyHeader read_header(const std::filesystem::path& file, std::string_view text,
                      std::size_t offset) {
  // Printing deeply nested values would take as deep a stack.
  const auto is_shallow = [](int depth, auto, const auto&) { return depth < 4; };
  const auto json = nlohmann::json::parse(as_json(text), is_shallow, false);
  if (!json.is_object()) {
    fail(file, fmt::format("the header at offset {} is {}, expected a Python dictionary", offset,
                           in_quotes(text)));
  }
  for (const auto* const key : {"descr", "fortran_order", "shape"})
    if (!json.contains(key)) fail(file, fmt::format("the header lacks the key '{}'", key));
  if (json.size() > 3)
    fail(file, "the header has other keys besides descr, fortran_order and shape");
  NpyHeader header{.type = read_type(file, json["descr"])};
  if (!json["fortran_order"].is_boolean())
    fail(file, fmt::format("fortran_order is {}, expected True or False",
                           in_quotes(json["fortran_order"].dump())));
  const auto& shape = json["shape"];
  const bool are_lengths =
      std::all_of(shape.begin(), shape.end(), [](const nlohmann::json& length) {
        return length.is_number_unsigned() &&
               std::in_range<std::int64_t>(length.get<std::uint64_t>());
      });
  if (!shape.is_array() || shape.size() > most_dimensions || !are_lengths) {
    fail(file, fmt::format("the shape is {}, expected at most {} lengths, whole numbers of 64 bits "
                           "that are not negative",
                           in_quotes(shape.dump()), most_dimensions));
  }
  header.shape = shape.get<std::vector<std::int64_t>>();
  // Along a single axis both orders are the same.
  const auto axes =
      std::ranges::count_if(header.shape, [](std::int64_t length) { return length > 1; });
  if (json["fortran_order"].get<bool>() && axes > 1) {
    fail(file,
         "fortran_order is True, expected False; write it with numpy.save(FILE, "
         "numpy.ascontiguousarray(array))");
  }
  return header;
}

// Place of the header's text, from the first bytes of a file.
struct TextRange {
  std::size_t offset = 0, size = 0;
};

// `beginning`: the first bytes, at least 12 of a file that has so many.
TextRange find_text(const std::filesystem::path& file, std::string_view beginning,
                    std::int64_t file_size) {
  if (!beginning.starts_with(magic)) {
    fail(file, fmt::format("the file begins with {}, expected \\x93NUMPY",
                           in_quotes(beginning.substr(0, magic.size()))));
  }
  const auto byte = [&](std::size_t at) {
    if (at >= beginning.size()) {
      fail(file, fmt::format("truncated: the file has {} bytes, too few for a header", file_size));
    }
    return static_cast<std::size_t>(static_cast<unsigned char>(beginning[at]));
  };
  const auto major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0) {
    fail(file,
         fmt::format("the version at offset 6 is {}.{}, expected 1.0, 2.0 or 3.0", major, minor));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  TextRange place{.offset = 8 + length_bytes};
  for (std::size_t i = 0; i < length_bytes; ++i) place.size |= byte(8 + i) << (8 * i);
  if (place.size > most_header_bytes) {
    fail(file, fmt::format("the header length at offset 8 is {} bytes, expected at most {}",
                           place.size, most_header_bytes));
  }
  if (std::cmp_greater(place.offset + place.size, file_size)) {
    fail(file, fmt::format("truncated: the header ends at offset {}, the file at {}",
                           place.offset + place.size, file_size));
  }
  return place;
}

void check_size(const std::filesystem::path& file, const NpyHeader& header,
                std::int64_t file_size) {
  std::int64_t expected = 0;
  try {
    expected =
        checked_add(header.data_offset,
                    checked_multiply(checked_product(std::span<const std::int64_t>(header.shape)),
                                     header.type.bytes));
  } catch (const Error&) {
    fail(file, fmt::format("the shape ({}) of {} overflows 64 bits", shape_text(header.shape),
                           header.type.name()));
  }
  if (expected == file_size) return;
  fail(file, fmt::format("{}: the shape ({}) of {} needs {} bytes with the header, the file has {}",
                         file_size < expected ? "truncated" : "trailing data",
                         shape_text(header.shape), header.type.name(), expected, file_size));
}

}  // namespace

bool is_npy(std::span<const std::byte> beginning) {
  return beginning.size() >= magic.size() &&
         std::ranges::equal(std::as_bytes(std::span(magic)), beginning.first(magic.size()));
}

std::string NumberType::name() const {
  if (kind == 'b') return "bool";
  return fmt::format("{}{}", kind == 'f' ? "float" : kind == 'i' ? "int" : "uint", 8 * bytes);
}

NpyHeader read_npy_header(const std::filesystem::path& file) {
  const auto descriptor = open_input_file(file, "data");
  const auto file_size = size_in_bytes(descriptor, file);
  std::string bytes;
  const auto read_to = [&](std::size_t size) {
    const auto known = bytes.size();
    bytes.resize(size);
    const auto more = std::as_writable_bytes(std::span(bytes)).subspan(known);
    bytes.resize(known + read_up_to(descriptor.get(), more, file));
  };
  read_to(12);
  const auto place = find_text(file, bytes, file_size);
  read_to(std::max(bytes.size(), place.offset + place.size));
  auto header =
      read_header(file, std::string_view(bytes).substr(place.offset, place.size), place.offset);
  header.data_offset = static_cast<std::int64_t>(place.offset + place.size);
  check_size(file, header, file_size);
  return header;
}

std::string npy_header_bytes(std::span<const std::int64_t> shape) {
  constexpr std::size_t alignment = 64, before_text = 10;
  auto text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
                          shape_text(shape), shape.size() == 1 ? "," : "");
  while ((before_text + text.size() + 1) % alignment != 0) text += ' ';
  text += '\n';
  const auto length = narrow<std::uint16_t>(text.size());
  std::string bytes(magic);
  bytes += {'\x01', '\x00', static_cast<char>(length & 255), static_cast<char>(length >> 8)};
  return bytes + text;
}

}  // namespace kolo
