#include "observe/progress_line.h"

#include <algorithm>
#include <array>

namespace kolo {

namespace {

constexpr std::size_t smallest_bar = 6;
constexpr std::size_t largest_bar = 40;

void append(std::string& line, std::string_view text, std::string_view separator) {
  if (text.empty()) return;
  if (!line.empty()) line += separator;
  line += text;
}

std::string tail_of(const ProgressTexts& texts) {
  std::string tail;
  for (const auto& text : {texts.percent, texts.steps, texts.rate, texts.loss, texts.time}) {
    append(tail, text, "  ");
  }
  return tail;
}

// The first `columns` characters.
std::string cut(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (std::size_t taken = 0; end < text.size(); ++end) {
    const bool starts_character = (static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U;
    if (starts_character && taken++ == columns) break;
  }
  return std::string(text.substr(0, end));
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;  // not the inside of a character
  }));
}

std::string render_bar(double fraction, std::size_t cells, bool unicode) {
  if (!unicode && cells < 3) return std::string(cells, ' ');
  const std::size_t inner = unicode ? cells : cells - 2;
  const double part = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(2 * inner);
  const auto halves = static_cast<std::size_t>(part);
  std::string bar;
  for (std::size_t cell = 0; cell < inner; ++cell) {
    const bool is_full = 2 * cell + 2 <= halves;
    const bool is_half = 2 * cell + 1 == halves;
    if (unicode) {
      bar += is_full ? "━" : is_half ? "╸" : " ";
    } else {
      bar += is_full ? '=' : is_half ? '-' : ' ';
    }
  }
  return unicode ? bar : "[" + bar + "]";
}

std::string render_line(const ProgressTexts& texts, double fraction, std::size_t width,
                        bool unicode) {
  ProgressTexts shown = texts;
  // Room for "label bar  tail" with the smallest bar; without it, the next text goes, and at last
  // the bar.
  const std::array<std::string*, 4> expendable{&shown.steps, &shown.rate, &shown.loss, &shown.time};
  constexpr std::size_t dropped_before_bar = 2;
  bool has_bar = true;
  std::size_t dropped = 0;
  const auto columns = [&] {
    const std::size_t texts_width = display_width(shown.label) + 2 + display_width(tail_of(shown));
    return texts_width + (has_bar ? smallest_bar + 1 : 0);
  };
  while (columns() > width && (has_bar || dropped < expendable.size())) {
    if (has_bar && dropped == dropped_before_bar) {
      has_bar = false;
    } else {
      expendable[dropped++]->clear();
    }
  }
  std::string line = shown.label;
  if (has_bar && columns() <= width) {
    const std::size_t cells = std::min(largest_bar, smallest_bar + width - columns());
    append(line, render_bar(fraction, cells, unicode), " ");
  }
  append(line, tail_of(shown), "  ");
  return cut(line, width);
}

std::string render_plain(const ProgressTexts& texts) {
  std::string line = texts.label;
  append(line, tail_of(texts), "  ");
  return line;
}

}  // namespace kolo
