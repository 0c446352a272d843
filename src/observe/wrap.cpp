#include "kolo/observe/wrap.h"

#include <algorithm>

namespace kolo {

namespace {

constexpr auto none = std::string_view::npos;

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

// Where the text goes beyond `columns`, and where to break it before that.
struct Breaks {
  std::size_t wide = none;   // at two blanks, which stand between a line's parts; if not too early
  std::size_t words = none;  // between words
  std::size_t any = none;    // between a number and its unit too
  bool is_too_long = false;

  [[nodiscard]] std::size_t best() const {
    return wide != none ? wide : words != none ? words : any;
  }
};

// `first`: what is before is indentation.
Breaks find_breaks(std::string_view line, std::size_t first, std::size_t columns) {
  Breaks breaks;
  std::size_t taken = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\x1b') {
      at = std::min(line.find('m', at), line.size() - 1);
      continue;
    }
    const bool is_space = line[at] == ' ' && at > first;
    if (is_space) {
      breaks.any = at;
      const bool is_wide = line[at - 1] == ' ' || line.substr(at + 1).starts_with(' ');
      if (is_wide && taken > columns / 2) breaks.wide = at;
      if (is_wide || !is_digit(line[at - 1])) breaks.words = at;
    }
    const bool starts_letter = (static_cast<unsigned char>(line[at]) & 0xC0U) != 0x80U;
    if (starts_letter && ++taken > columns && !is_space) {
      breaks.is_too_long = true;
      if (breaks.any != none) return breaks;
    }
  }
  return breaks;
}

// Blanks at a break vanish.
void wrap_line(std::string& wrapped, std::string_view line, std::size_t width, std::size_t indent) {
  std::size_t columns = width;
  for (std::size_t first = std::min(line.find_first_not_of(' '), line.size());;) {
    const auto breaks = find_breaks(line, first, columns);
    const auto at = breaks.best();
    if (!breaks.is_too_long || at == none) break;
    wrapped += line.substr(0, line.find_last_not_of(' ', at) + 1);
    wrapped += '\n' + std::string(indent, ' ');
    line.remove_prefix(line.find_first_not_of(' ', at));
    columns = width > indent ? width - indent : 1;
    first = 0;
  }
  wrapped += line;
}

}  // namespace

std::string wrap(std::string_view text, int width, int indent) {
  if (width <= 0) return std::string(text);
  std::string wrapped;
  for (;;) {
    const auto end = text.find('\n');
    wrap_line(wrapped, text.substr(0, end), static_cast<std::size_t>(width),
              static_cast<std::size_t>(indent));
    if (end == none) return wrapped;
    wrapped += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace kolo
