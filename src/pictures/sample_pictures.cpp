#include "kolo/pictures/sample_pictures.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "pictures/gnuplot.h"
#include "pictures/gnuplot_axes.h"

namespace kolo {

namespace {

constexpr std::string_view dark = "#1f2328", red = "#c62828";

void require_complete(const PanelSheet& sheet, const Panel& panel) {
  const auto planes = panel.scale == Panel::Scale::colour ? 3 : 1;
  const auto expected = checked_multiply(checked_multiply(panel.rows, panel.columns),
                                         static_cast<std::int64_t>(planes));
  if (panel.rows >= 1 && panel.columns >= 1 && std::cmp_equal(panel.values.size(), expected))
    return;
  throw Error(fmt::format(
      "pictures: {}: the panel \"{}\" of {} x {} cells has {} values, expected {}", sheet.id,
      panel.caption, panel.rows, panel.columns, panel.values.size(), expected));
}

// The mean of the cells [begin, end) of a plane along both edges.
double mean_of(const float* plane, std::int64_t columns, std::int64_t top, std::int64_t bottom,
               std::int64_t left, std::int64_t right) {
  double sum = 0;
  for (std::int64_t row = top; row < bottom; ++row)
    for (std::int64_t column = left; column < right; ++column)
      sum += static_cast<double>(plane[row * columns + column]);
  return sum / static_cast<double>((bottom - top) * (right - left));
}

// With no more cells than can be seen.
Panel made_small(const Panel& panel) {
  const auto most = std::max(panel.rows, panel.columns);
  if (most <= most_cells_of_panel) return panel;
  const auto step = (most + most_cells_of_panel - 1) / most_cells_of_panel;
  Panel small = panel;
  small.rows = (panel.rows + step - 1) / step;
  small.columns = (panel.columns + step - 1) / step;
  small.values.clear();
  const auto plane = panel.rows * panel.columns;
  for (std::int64_t begin = 0; std::cmp_less(begin, panel.values.size()); begin += plane) {
    for (std::int64_t row = 0; row < small.rows; ++row)
      for (std::int64_t column = 0; column < small.columns; ++column)
        small.values.push_back(
            static_cast<float>(mean_of(panel.values.data() + begin, panel.columns, row * step,
                                       std::min(panel.rows, (row + 1) * step), column * step,
                                       std::min(panel.columns, (column + 1) * step))));
  }
  return small;
}

// 0 to 1 of the panel's scale.
double shade(const Panel& panel, float value) {
  const double width = panel.high - panel.low;
  const double place = width > 0 ? (static_cast<double>(value) - panel.low) / width : .5;
  return std::isfinite(place) ? std::clamp(place, 0., 1.) : 0;
}

// The block $panelN: of colours a line "x y red green blue" each, otherwise a matrix.
std::string data_of(const Panel& panel, std::size_t number) {
  std::string text = fmt::format("$panel{} << END\n", number);
  const auto plane = static_cast<std::size_t>(panel.rows * panel.columns);
  for (std::int64_t row = 0; row < panel.rows; ++row) {
    for (std::int64_t column = 0; column < panel.columns; ++column) {
      const auto place = static_cast<std::size_t>(row * panel.columns + column);
      if (panel.scale != Panel::Scale::colour) {
        text += fmt::format("{:.4f} ", shade(panel, panel.values[place]));
        continue;
      }
      text += fmt::format("{} {}", column, row);
      for (std::size_t i = 0; i < 3; ++i)
        text +=
            fmt::format(" {}", std::lround(255 * shade(panel, panel.values[i * plane + place])));
      text += "\n";
    }
    text += "\n";
  }
  return text + "END\n";
}

std::string_view palette_of(Panel::Scale scale) {
  switch (scale) {
    case Panel::Scale::field:  // D. A. Green, 2011: as bright as the value is large
      return "set palette cubehelix start 0.4 cycles -0.9 saturation 1.3\n";
    case Panel::Scale::difference:
      return "set palette defined (0 '#2166ac', 0.5 '#f7f7f7', 1 '#b2182b')\n";
    default:
      return "set palette gray\n";
  }
}

std::string script_of(const Panel& panel, std::size_t number) {
  const auto* const plot = panel.scale == Panel::Scale::colour
                               ? "plot ${} using 1:2:3:4:5 with rgbimage notitle\n"
                               : "plot ${} matrix with image notitle\n";
  return fmt::format("set title {} offset 0,-0.6 font ',11' textcolor rgb '{}'\n",
                     in_quotes(panel.caption), panel.stands_out ? red : dark) +
         std::string(palette_of(panel.scale)) +
         fmt::format("set xrange [-0.5:{}.5]\nset yrange [{}.5:-0.5]\n", panel.columns - 1,
                     panel.rows - 1) +
         fmt::format(fmt::runtime(plot), fmt::format("panel{}", number));
}

}  // namespace

std::string draw_panels(const PanelSheet& sheet, FigureFormat format) {
  constexpr int panel_width = 165, panel_height = 170, title_height = 40;
  const auto count = narrow<int>(sheet.panels.size());
  if (count == 0 || sheet.panels_per_row < 1)
    throw Error(fmt::format("pictures: {} has nothing to draw", sheet.id));
  const int columns = std::min(sheet.panels_per_row, count);
  const int rows = (count + columns - 1) / columns;
  std::string data, script;
  for (std::size_t i = 0; i < sheet.panels.size(); ++i) {
    if (sheet.panels[i].rows == 0 && sheet.panels[i].values.empty()) {
      script += "set multiplot next\n";
      continue;
    }
    require_complete(sheet, sheet.panels[i]);
    const auto panel = made_small(sheet.panels[i]);
    data += data_of(panel, i);
    script += script_of(panel, i);
  }
  const auto head = fmt::format(
      "set encoding utf8\nset multiplot layout {},{} rowsfirst title {} textcolor rgb '{}'\n"
      "unset key\nunset tics\nunset colorbox\nset border 31 linewidth 0.5 linecolor rgb '#9a9fa6'\n"
      "set size ratio -1\nset cbrange [0:1]\nset lmargin 1\nset rmargin 1\nset tmargin 2\n"
      "set bmargin 0.5\n",
      rows, columns, in_quotes(sheet.title), dark);
  return run_gnuplot(
      gnuplot_terminal(columns * panel_width, rows * panel_height + title_height, format) + data +
          head + script + "unset multiplot\n",
      sheet.id, format);
}

namespace {

constexpr std::size_t most_numbers = 20;  // classes of which each count is written

// $shares: of each class's samples; $counts: column, row, the count.
std::string data_of(const CountTable& table) {
  const auto classes = table.names.size();
  std::string shares = "$shares << END\n", counts = "$counts << END\n";
  for (std::size_t row = 0; row < classes; ++row) {
    const auto* const begin = table.counts.data() + row * classes;
    std::int64_t sum = 0;
    for (std::size_t column = 0; column < classes; ++column) sum += begin[column];
    for (std::size_t column = 0; column < classes; ++column) {
      const double share =
          sum == 0 ? 0 : static_cast<double>(begin[column]) / static_cast<double>(sum);
      shares += fmt::format("{:.5f} ", share);
      if (begin[column] > 0)
        counts += fmt::format("{} {} {} {}\n", column, row, begin[column], share > .5 ? 1 : 0);
    }
    shares += "\n";
  }
  return shares + "END\n" + counts + "END\n";
}

std::string ticks_of(const CountTable& table) {
  std::string list;
  const auto step = (table.names.size() + 49) / 50;  // as many names as there is room for
  for (std::size_t i = 0; i < table.names.size(); i += step)
    list += fmt::format("{}{} {}", i == 0 ? "" : ", ", label_in_quotes(table.names[i]), i);
  const auto longest = std::ranges::max(table.names, {}, &std::string::size).size();
  return fmt::format("set xtics ({}) {} scale 0\nset ytics ({}) scale 0\n", list,
                     longest > 3 ? "rotate by 45 right" : "", list);
}

}  // namespace

std::string draw_table(const CountTable& table, FigureFormat format) {
  const auto classes = table.names.size();
  if (classes == 0 || table.counts.size() != checked_multiply(classes, classes))
    throw Error(fmt::format("pictures: {} has {} counts of {} classes", table.id,
                            table.counts.size(), classes));
  const auto edge = narrow<int>(std::clamp<std::size_t>(44 * classes, 320, 800));
  auto script =
      gnuplot_terminal(edge + 140, edge + 130, format) + data_of(table) +
      "set encoding utf8\nunset key\nset border 0\nset size ratio -1\n"
      "set palette defined (0 '#ffffff', 1 '#1a5fb4')\nset cbrange [0:1]\nunset colorbox\n" +
      ticks_of(table) +
      fmt::format("set title {} textcolor rgb '{}'\n", in_quotes(table.title), dark) +
      fmt::format("set xlabel 'taken for' textcolor rgb '{}'\nset ylabel 'is' textcolor rgb '{}'\n",
                  dark, dark) +
      fmt::format("set xrange [-0.5:{}.5]\nset yrange [{}.5:-0.5]\n", classes - 1, classes - 1);
  script += "plot $shares matrix with image notitle";
  if (classes <= most_numbers) {
    script +=
        ", $counts using 1:2:(sprintf('%d', $3)):($4 > 0 ? 0xffffff : 0x1f2328) with labels "
        "textcolor rgb variable notitle";
  }
  return run_gnuplot(script + "\n", table.id, format);
}

}  // namespace kolo
