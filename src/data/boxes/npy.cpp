
#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <utility>

#include <fmt/format.h>

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
std::string quoted(std::string_view text) {
  constexpr std::size_t most = 40;
  std::string shown;
  for (const char c : text.substr(0, most)) shown += c >= ' ' && c <= '~' ? c : '?';
  return fmt::format("'{}{}'", shown, text.size() > most ? "..." : "");
}

// The contents of an array whose type is not one of numbers that are read.
std::string_view other_contents(std::string_view type) {
  const auto kind = type.find_first_not_of("<>|=");  // after the order of bytes
  switch (kind == type.npos ? '\0' : type[kind]) {
    case 'O':
      return ", which is Python objects";
    case 'c':
      return ", which is complex numbers";
    case 'f':
      return ", which is long doubles";
    case 'S':
    case 'U':
    case 'a':
      return ", which is text";
    case 'M':
    case 'm':
      return ", which is dates or times";
    case 'V':
      return ", which is raw bytes, as bfloat16's are written";
    default:
      return "";
  }
}

// Reads the header: a Python dictionary with the keys descr, fortran_order and shape, once each.
class HeaderReader {
 public:
  HeaderReader(const std::filesystem::path& file, std::string_view text, std::size_t offset)
      : file_(file), text_(text), offset_(offset) {}

  // All but the offset of the numbers.
  NpyHeader read() {
    expect('{', "the header's '{'");
    while (!accept('}')) {
      read_entry();
      if (accept(',')) continue;
      expect('}', "',' or '}'");
      break;
    }
    skip_spaces();
    if (at_ != text_.size()) wrong("nothing after the dictionary");
    if (!type_) fail(file_, "the header lacks the key 'descr'");
    if (!is_fortran_order_) fail(file_, "the header lacks the key 'fortran_order'");
    if (!shape_) fail(file_, "the header lacks the key 'shape'");
    return {.type = *type_, .is_fortran_order = *is_fortran_order_, .shape = *shape_};
  }

 private:
  [[noreturn]] void wrong(std::string_view expected) const {
    fail(file_, fmt::format("the header at offset {} is {}, expected {}", offset_ + at_,
                            quoted(text_.substr(at_)), expected));
  }

  void skip_spaces() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }
  bool accept(char wanted) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted, std::string_view name) {
    if (!accept(wanted)) wrong(name);
  }

  void read_entry() {
    const auto key = read_string("a key in quotes");
    expect(':', "':'");
    if (key == "descr" && !type_) {
      read_type();
    } else if (key == "fortran_order" && !is_fortran_order_) {
      read_order();
    } else if (key == "shape" && !shape_) {
      read_shape();
    } else {
      fail(file_, fmt::format("the header has the key {} {}", quoted(key),
                              key == "descr" || key == "fortran_order" || key == "shape"
                                  ? "twice"
                                  : "besides descr, fortran_order and shape"));
    }
  }

  std::string_view read_string(std::string_view expected) {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') wrong(expected);
    const auto end = text_.find(quote, at_ + 1);
    if (end == text_.npos) wrong("a string that ends");
    const auto content = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return content;
  }

  void read_type() {
    constexpr std::string_view expected =
        "expected floating-point numbers of 16, 32 or 64 bits, or whole ones; write it with "
        ".astype('float32')";
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == '[') {
      fail(file_, fmt::format("descr is a list, so the array holds structures; {}", expected));
    }
    const auto type = read_string("a type in quotes");
    type_ = number_type_of(type);
    if (!type_)
      fail(file_, fmt::format("descr is {}{}; {}", quoted(type), other_contents(type), expected));
  }

  void read_order() {
    skip_spaces();
    const auto rest = text_.substr(at_);
    for (const auto& [word, is_fortran] :
         {std::pair<std::string_view, bool>("True", true), {"False", false}}) {
      if (!rest.starts_with(word)) continue;
      at_ += word.size();
      is_fortran_order_ = is_fortran;
      return;
    }
    wrong("True or False");
  }

  void read_shape() {
    expect('(', "the shape's '('");
    shape_.emplace();
    while (!accept(')')) {
      if (shape_->size() == most_dimensions) wrong("at most 32 dimensions");
      shape_->push_back(read_dimension());
      if (accept(',')) continue;
      // (3) is a number in Python, (3,) a shape.
      if (shape_->size() == 1) wrong("',' after the only dimension");
      expect(')', "',' or ')'");
      break;
    }
  }

  std::int64_t read_dimension() {
    skip_spaces();
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) wrong("a dimension that fits 64 bits");
    if (error != std::errc()) wrong("a dimension");
    if (value < 0) wrong("a dimension that is not negative");
    at_ = static_cast<std::size_t>(end - text_.data());
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
    return value;
  }

  const std::filesystem::path& file_;
  std::string_view text_;
  std::size_t offset_;  // of the text in the file
  std::size_t at_ = 0;
  std::optional<NumberType> type_;
  std::optional<bool> is_fortran_order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

// Place of the header's text, from the first bytes of a file.
struct TextPlace {
  std::size_t offset = 0, size = 0;
};

// `beginning`: the first bytes, at least 12 of a file that has so many.
TextPlace find_text(const std::filesystem::path& file, std::string_view beginning,
                    std::int64_t file_size) {
  if (!beginning.starts_with(magic)) {
    fail(file, fmt::format("the file begins with {}, expected \\x93NUMPY",
                           quoted(beginning.substr(0, magic.size()))));
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
  TextPlace place{.offset = 8 + length_bytes};
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
  return fmt::format("{}{}{}", is_big_endian ? "big-endian " : "",
                     kind == 'f'   ? "float"
                     : kind == 'i' ? "int"
                                   : "uint",
                     8 * bytes);
}

std::optional<NumberType> number_type_of(std::string_view numpy) {
  if (numpy.size() != 3 || std::string_view("<>|=").find(numpy[0]) == numpy.npos)
    return std::nullopt;
  const NumberType type{
      .kind = numpy[1], .bytes = numpy[2] - '0', .is_big_endian = numpy[0] == '>'};
  const auto is_one_of = [&](std::initializer_list<std::int64_t> sizes) {
    return std::ranges::find(sizes, type.bytes) != sizes.end();
  };
  const bool is_known = type.kind == 'f' ? is_one_of({2, 4, 8})
                        : type.kind == 'b'
                            ? type.bytes == 1
                            : (type.kind == 'i' || type.kind == 'u') && is_one_of({1, 2, 4, 8});
  if (!is_known) return std::nullopt;
  return NumberType{type.kind, type.bytes, type.is_big_endian && type.bytes > 1};
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
  HeaderReader reader(file, std::string_view(bytes).substr(place.offset, place.size), place.offset);
  auto header = reader.read();
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
