#include <algorithm>

#include "kolo/report/results_table.h"

namespace kolo {

namespace {

// Columns as people see them: ± is one, though two bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char letter) { return (static_cast<unsigned char>(letter) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width, bool to_the_right) {
  const std::string space(width - width_of(text), ' ');
  return to_the_right ? space + text : text + space;
}

std::vector<std::size_t> widths_of(const ResultsTable& table) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t width = width_of(table.columns[i].title);
    for (const auto& row : table.rows) width = std::max(width, width_of(row.cells[i].text));
    widths.push_back(width);
  }
  return widths;
}

}  // namespace

std::string to_text(const ResultsTable& table) {
  const auto widths = widths_of(table);
  std::string text;
  const auto add_line = [&](const auto& text_of_column) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (i > 0) line += "  ";
      line += padded(text_of_column(i), widths[i], table.columns[i].is_number);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](std::size_t i) { return table.columns[i].title; });
  for (const auto& row : table.rows) add_line([&](std::size_t i) { return row.cells[i].text; });
  if (!table.note.empty()) text += "\n" + table.note + "\n";
  return text;
}

}  // namespace kolo
