#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "kolo/report/draw_figures.h"
#include "kolo/report/palette.h"

namespace kolo {

namespace {

// A string for gnuplot in which nothing is anything but text: all that could be more (backquotes,
// which execute what is between them, quotes, backslashes) is written by its number.
std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    const bool is_control = code < ' ' || code == 0x7f;
    const bool is_plain = std::isalnum(code) != 0 || code == ' ' || code >= 0x80;
    if (is_plain) result += letter;
    if (!is_plain) result += is_control ? " " : fmt::format("\\{:03o}", code);
  }
  return result + "\"";
}

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.12g}", value) : "NaN";
}

std::string colour(int place) {
  return fmt::format("'{}'", colour_at(place).light);
}

// Filled marks, one for each time through the palette: circle, square, triangle, diamond.
int mark_of(int place) {
  constexpr int marks[] = {7, 5, 9, 13};
  const auto round = static_cast<std::size_t>(std::max(place, 0)) / run_palette.size();
  return marks[round % std::size(marks)];
}

// How much room there must be beside the figure itself, in pixels and in gnuplot's characters.
struct Layout {
  int width = 760, height = 420;
  int bottom_margin = 4;
  bool key_is_below = false, key_is_beside = false;
  bool labels_are_turned = false;  // those below bars
};

std::size_t longest_name(const Figure& figure) {
  std::size_t longest = 0;
  for (const auto& series : figure.series) longest = std::max(longest, series.name.size());
  return longest;
}

Layout layout_of(const Figure& figure) {
  constexpr int few = 4, pixels_of_letter = 8, pixels_of_line = 22;
  Layout layout;
  const auto series = static_cast<int>(figure.series.size());
  const auto longest = static_cast<int>(std::min<std::size_t>(longest_name(figure), 60));
  const bool fits_below = series * (longest + 6) * pixels_of_letter < layout.width;
  layout.key_is_below = series > 1 && series <= few && fits_below;
  layout.key_is_beside = series > 1 && !layout.key_is_below;
  if (layout.key_is_beside) {
    layout.width += (longest + 4) * pixels_of_letter;
    layout.height = std::max(layout.height, (series + 6) * pixels_of_line);
  }
  if (layout.key_is_below) layout.bottom_margin += 2;
  std::size_t longest_category = 0;
  for (const auto& category : figure.categories)
    longest_category = std::max(longest_category, category.size());
  layout.labels_are_turned = longest_category * figure.categories.size() > 70;
  if (layout.labels_are_turned)
    layout.bottom_margin += static_cast<int>(std::min<std::size_t>(longest_category, 40) / 4);
  return layout;
}

std::string terminal(const Layout& layout, FigureFormat format) {
  if (format == FigureFormat::svg) {
    return fmt::format(
        "set terminal svg size {},{} noenhanced font 'DejaVu Sans,13' background '#ffffff'\n",
        layout.width, layout.height);
  }
  return fmt::format(
      "set terminal pngcairo size {},{} noenhanced font 'DejaVu Sans,18' background '#ffffff' "
      "linewidth 2 pointscale 2\n",
      2 * layout.width, 2 * layout.height);
}

// What all figures have in common.
std::string style(const Figure& figure, const Layout& layout) {
  std::string text =
      "set encoding utf8\n"
      "set border 3 linewidth 0.8 linecolor rgb '#9a9fa6'\n"
      "set tics nomirror out scale 0.5 textcolor rgb '#4a4f57'\n"
      "set grid linewidth 0.6 linetype 1 linecolor rgb '#e4e4e1'\n"
      "set lmargin 11\nset tmargin 3\n";
  text += fmt::format("set bmargin {}\n", layout.bottom_margin);
  text +=
      fmt::format("set title {} textcolor rgb '#1f2328' offset 0,-0.2\n", in_quotes(figure.title));
  for (const auto& [axis, label] : {std::pair{"x", figure.x_label}, std::pair{"y", figure.y_label}})
    text += fmt::format("set {}label {} textcolor rgb '#4a4f57'\n", axis, in_quotes(label));
  const std::string_view key = "Left reverse samplen 2.6 textcolor rgb '#33373d'";
  if (layout.key_is_below)
    return text + fmt::format("set rmargin 3\nset key bmargin center horizontal {}\n", key);
  if (layout.key_is_beside)
    return text + fmt::format("set key outside right center vertical {}\n", key);
  return text + "set rmargin 3\nunset key\n";
}

// The values of one coordinate of all series that are numbers, in order.
std::set<double> values_of(const Figure& figure, std::vector<double> FigureSeries::*coordinate) {
  std::set<double> values;
  for (const auto& series : figure.series) {
    for (const double value : series.*coordinate) {
      if (std::isfinite(value)) values.insert(value);
    }
  }
  return values;
}

// "set xtics ('1' 1, '2' 2)"
std::string tics_at(std::string_view axis, const std::set<double>& values) {
  std::string list;
  for (const double value : values)
    list += fmt::format("{}'{:.7g}' {}", list.empty() ? "" : ", ", value, number(value));
  return fmt::format("set {}tics ({})\n", axis, list);
}

// Of a logarithmic scale: 1, 2 and 5 times powers of ten, as far as the values reach.
std::set<double> round_values(double smallest, double largest) {
  std::set<double> values;
  for (double power = std::pow(10, std::floor(std::log10(smallest))); power <= largest;
       power *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) values.insert(factor * power);
  }
  return values;
}

std::string logarithmic_scale(const Figure& figure, std::string_view axis,
                              std::vector<double> FigureSeries::*coordinate) {
  auto values = values_of(figure, coordinate);
  if (values.empty() || *values.begin() <= 0) return {};
  constexpr std::size_t most_tics = 16;
  const double smallest = *values.begin(), largest = *values.rbegin();
  const double margin = axis == "x" ? 1.1 : 1.25;
  std::string text = fmt::format("set logscale {}\nset {}range [{}:{}]\n", axis, axis,
                                 number(smallest / margin), number(largest * margin));
  // Numbers of ranks are few: each has its tic.
  const bool is_few = axis == "x" && values.size() <= most_tics;
  return text + tics_at(axis, is_few ? values : round_values(smallest, largest));
}

std::string scales(const Figure& figure) {
  std::string text;
  if (figure.x_logarithmic) text += logarithmic_scale(figure, "x", &FigureSeries::x);
  if (figure.y_logarithmic) text += logarithmic_scale(figure, "y", &FigureSeries::y);
  if (!figure.y_logarithmic) text += "set offsets 0, 0, graph 0.04, graph 0.04\n";
  if (figure.x_is_time) {
    const auto times = values_of(figure, &FigureSeries::x);
    const double span = times.empty() ? 0 : *times.rbegin() - *times.begin();
    const auto* const format = span > 4 * 86400 ? "%Y-%m-%d" : span > 600 ? "%H:%M" : "%H:%M:%S";
    text += fmt::format("set xtics time format '{}'\n", format);
  } else if (!figure.x_logarithmic) {
    text += "set xtics format '%g'\n";
  }
  if (!figure.y_logarithmic) text += "set ytics format '%g'\n";
  return text;
}

// The points of a series as the data block $NAME: x, y, deviation. A gap is an empty line.
std::string data_block(const std::string& name, const FigureSeries& series) {
  std::string text = fmt::format("${} << END\n", name);
  for (std::size_t i = 0; i < series.y.size(); ++i) {
    if (!std::isfinite(series.x[i])) continue;
    if (!std::isfinite(series.y[i])) {
      text += "\n";
      continue;
    }
    text += fmt::format("{} {} {}\n", number(series.x[i]), number(series.y[i]),
                        series.spread.empty() ? "0" : number(series.spread[i]));
  }
  return text + "END\n";
}

bool has_points(const FigureSeries& series) {
  for (std::size_t i = 0; i < series.y.size(); ++i) {
    if (std::isfinite(series.x[i]) && std::isfinite(series.y[i])) return true;
  }
  return false;
}

std::string line_plot(const Figure& figure) {
  std::string blocks, plots;
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    const auto& series = figure.series[i];
    if (!has_points(series)) continue;
    const auto name = fmt::format("series{}", i);
    blocks += data_block(name, series);
    const auto add = [&](const std::string& what) {
      plots += fmt::format("{}  ${} {}", plots.empty() ? "plot \\\n" : ", \\\n", name, what);
    };
    const auto paint = fmt::format("linecolor rgb {}", colour(series.colour));
    if (!series.spread.empty())
      add(fmt::format("using 1:2:3 with yerrorbars notitle pointtype 0 linewidth 1.2 {}", paint));
    const auto mark = fmt::format("pointtype {} pointsize 0.55", mark_of(series.colour));
    add(fmt::format("using 1:2 with {} title {} linewidth {} dashtype {} {} {}",
                    series.marks ? "linespoints" : "lines", in_quotes(series.name),
                    series.marks ? "2.2" : "1.6", series.dashed ? "(9,6)" : "solid", paint,
                    series.marks ? mark : ""));
  }
  // An empty frame, where no point has a place.
  if (plots.empty()) return "set xrange [0:1]\nset yrange [0:1]\nplot NaN notitle\n";
  return blocks + plots + "\n";
}

// One row a bar: its parts.
std::string bar_plot(const Figure& figure, const Layout& layout) {
  std::string text =
      "set style data histograms\nset style histogram rowstacked\nset boxwidth 0.6 relative\n"
      "set style fill solid 1 noborder\nset yrange [0:*]\nunset grid\n"
      "set grid ytics linewidth 0.6 linetype 1 linecolor rgb '#e4e4e1'\n$bars << END\n";
  for (std::size_t bar = 0; bar < figure.categories.size(); ++bar) {
    for (const auto& series : figure.series)
      text += fmt::format("{} ", number(bar < series.y.size() ? series.y[bar] : 0));
    text += "\n";
  }
  text += "END\nset xtics (";
  for (std::size_t bar = 0; bar < figure.categories.size(); ++bar)
    text += fmt::format("{}{} {}", bar == 0 ? "" : ", ", in_quotes(figure.categories[bar]), bar);
  text += layout.labels_are_turned ? ") rotate by 30 right\n" : ")\n";
  text += "plot \\\n";
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    const auto& series = figure.series[i];
    text +=
        fmt::format("  $bars using {} title {} linecolor rgb {}{}", i + 1, in_quotes(series.name),
                    colour(series.colour), i + 1 < figure.series.size() ? ", \\\n" : "\n");
  }
  return text;
}

}  // namespace

std::string gnuplot_script(const Figure& figure, FigureFormat format) {
  const auto layout = layout_of(figure);
  const auto start = terminal(layout, format) + style(figure, layout);
  if (figure.kind == Figure::Kind::stacked_bars) return start + bar_plot(figure, layout);
  return start + scales(figure) + line_plot(figure);
}

}  // namespace kolo
