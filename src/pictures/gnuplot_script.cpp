#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kolo/pictures/draw_figures.h"
#include "kolo/report/figure.h"
#include "pictures/gnuplot.h"
#include "pictures/gnuplot_axes.h"

namespace kolo {

namespace {

std::string colour(int place) {
  return fmt::format("'{}'", colour_at(place).light);
}

// One mark for each time through the palette: circle, square, triangle, diamond; open ones on
// dashed lines.
int mark_of(const FigureSeries& series) {
  constexpr int filled[] = {7, 5, 9, 13};
  const auto round = static_cast<std::size_t>(std::max(series.colour, 0)) / run_palette.size();
  return filled[round % std::size(filled)] - (series.dashed ? 1 : 0);
}

// How much room there must be beside the figure itself, in pixels and in gnuplot's characters.
struct Layout {
  int width = 760, height = 420;
  int bottom_margin = 4;
  bool key_is_below = false, key_is_beside = false;
  int key_rows = 1;                // of a key below
  bool labels_are_turned = false;  // those below bars
};

std::size_t longest_name(const Figure& figure) {
  std::size_t longest = 0;
  for (const auto& series : figure.series) longest = std::max(longest, series.name.size());
  return longest;
}

Layout layout_of(const Figure& figure) {
  constexpr int few = 4, pixels_of_letter = 8, pixels_of_line = 22;
  // Beside the curves, long names would leave these a corner of the picture, as on a phone.
  constexpr int long_name = 32, most_rows = 8;
  Layout layout;
  const auto series = static_cast<int>(figure.series.size());
  const auto longest = static_cast<int>(std::min<std::size_t>(longest_name(figure), 60));
  const bool fits_below = series * (longest + 6) * pixels_of_letter < layout.width;
  layout.key_is_below = series > 1 && series <= few && fits_below;
  if (series > 1 && !layout.key_is_below && longest > long_name && series <= most_rows) {
    layout.key_is_below = true;
    layout.key_rows = series;
    layout.height += series * pixels_of_line;
  }
  layout.key_is_beside = series > 1 && !layout.key_is_below;
  if (layout.key_is_beside) {
    layout.width += (longest + 4) * pixels_of_letter;
    layout.height = std::max(layout.height, (series + 6) * pixels_of_line);
  }
  if (layout.key_is_below) layout.bottom_margin += 1 + layout.key_rows;
  std::size_t longest_category = 0;
  for (const auto& category : figure.categories)
    longest_category = std::max(longest_category, category.size());
  layout.labels_are_turned = longest_category * figure.categories.size() > 70;
  if (layout.labels_are_turned)
    layout.bottom_margin += static_cast<int>(std::min<std::size_t>(longest_category, 40) / 4);
  return layout;
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
    return text + fmt::format("set rmargin 3\nset key bmargin center {} {}\n",
                              layout.key_rows > 1 ? "vertical maxcols 1" : "horizontal", key);
  if (layout.key_is_beside)
    return text + fmt::format("set key outside right center vertical {}\n", key);
  return text + "set rmargin 3\nunset key\n";
}

// The points of a series as the data block $NAME: x, y, and the deviation's ends, which stay on a
// logarithmic axis. A gap is an empty line.
std::string data_block(const std::string& name, const FigureSeries& series, double lowest) {
  std::string text = fmt::format("${} << END\n", name);
  for (std::size_t i = 0; i < series.y.size(); ++i) {
    if (!std::isfinite(series.x[i])) continue;
    if (!std::isfinite(series.y[i])) {
      text += "\n";
      continue;
    }
    const double spread = series.spread.empty() ? 0 : series.spread[i];
    const double low = std::max(series.y[i] - spread, lowest);
    text += fmt::format("{} {} {} {}\n", number(series.x[i]), number(series.y[i]), number(low),
                        number(series.y[i] + spread));
  }
  return text + "END\n";
}

// The points of a series that no line reaches, as there is nothing beside them: all there is of a
// curve of one value.
FigureSeries lonely_points(const FigureSeries& series) {
  FigureSeries lonely{.name = series.name, .x = {}, .y = {}, .spread = {}};
  bool follows_point = false;
  for (std::size_t i = 0; i < series.y.size(); ++i) {
    if (!std::isfinite(series.x[i])) continue;
    if (!std::isfinite(series.y[i])) {
      follows_point = false;
      continue;
    }
    auto next = i + 1;
    while (next < series.y.size() && !std::isfinite(series.x[next])) ++next;
    const bool has_next = next < series.y.size() && std::isfinite(series.y[next]);
    if (!follows_point && !has_next) {
      lonely.x.push_back(series.x[i]);
      lonely.y.push_back(series.y[i]);
    }
    follows_point = true;
  }
  return lonely;
}

bool has_points(const FigureSeries& series) {
  for (std::size_t i = 0; i < series.y.size(); ++i) {
    if (std::isfinite(series.x[i]) && std::isfinite(series.y[i])) return true;
  }
  return false;
}

// The data blocks and what is plotted of them.
class LinePlot {
 public:
  explicit LinePlot(const Figure& figure) : lowest_(y_axis(figure).low) {}

  void add(const FigureSeries& series, const std::string& name) {
    blocks_ += data_block(name, series, lowest_);
    const auto paint = fmt::format("linecolor rgb {}", colour(series.colour));
    if (!series.spread.empty()) {
      plot("${} using 1:2:3:4 with yerrorbars notitle pointtype 0 linewidth 1.2 {}", name, paint);
    }
    const auto mark = fmt::format("pointtype {} pointsize {:.2f}", mark_of(series),
                                  (series.dashed ? 0.7 : 0.55) + 0.15 * series.hidden_by);
    const double width = series.marks ? 2.2 : 1.6;
    const auto* const dashes = series.dashed ? "(9,6)" : "solid";
    // What others lie on is wide, its marks and what stands beside its name are not.
    if (series.hidden_by > 0)
      plot("${} using 1:2 with lines notitle linewidth {:.1f} dashtype {} {}", name,
           width + 4 * series.hidden_by, dashes, paint);
    plot("${} using 1:2 with {} title {} linewidth {:.1f} dashtype {} {} {}", name,
         series.marks ? "linespoints" : "lines", in_quotes(series.name), width, dashes, paint,
         series.marks ? mark : "");
    const auto lonely = lonely_points(series);
    if (series.marks || !has_points(lonely)) return;
    blocks_ += data_block(name + "alone", lonely, lowest_);
    plot("${}alone using 1:2 with points notitle {} {}", name, mark, paint);
  }

  [[nodiscard]] std::string text() const {
    // An empty frame, where no point has a place.
    if (plots_.empty()) return "set xrange [0:1]\nset yrange [0:1]\nplot NaN notitle\n";
    return blocks_ + "plot \\\n" + plots_ + "\n";
  }

 private:
  template <typename... Parts>
  void plot(fmt::format_string<Parts...> what, Parts&&... parts) {
    plots_ +=
        (plots_.empty() ? "  " : ", \\\n  ") + fmt::format(what, std::forward<Parts>(parts)...);
  }

  double lowest_;
  std::string blocks_, plots_;
};

std::string line_plot(const Figure& figure) {
  LinePlot plot(figure);
  for (std::size_t i = 0; i < figure.series.size(); ++i)
    if (has_points(figure.series[i])) plot.add(figure.series[i], fmt::format("series{}", i));
  return plot.text();
}

// One row a bar: its parts.
std::string bar_plot(const Figure& figure, const Layout& layout) {
  std::string text =
      "set style data histograms\nset style histogram rowstacked\nset boxwidth 0.6 relative\n"
      "set style fill solid 1 noborder\nunset grid\n"
      "set grid ytics linewidth 0.6 linetype 1 linecolor rgb '#e4e4e1'\n";
  // Few bars are not made wide.
  const auto bars = static_cast<double>(figure.categories.size());
  const double beside = 0.7 + std::max(0., 4 - bars) / 2;
  text += fmt::format("set xrange [{:.2f}:{:.2f}]\n", -beside, bars - 1 + beside);
  text += scale_of_bars(figure) + "$bars << END\n";
  for (std::size_t bar = 0; bar < figure.categories.size(); ++bar) {
    for (const auto& series : figure.series)
      text += fmt::format("{} ", number(bar < series.y.size() ? series.y[bar] : 0));
    text += "\n";
  }
  text += "END\nset xtics (";
  for (std::size_t bar = 0; bar < figure.categories.size(); ++bar)
    text +=
        fmt::format("{}{} {}", bar == 0 ? "" : ", ", label_in_quotes(figure.categories[bar]), bar);
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
  const auto start = gnuplot_terminal(layout.width, layout.height, format) + style(figure, layout);
  if (figure.kind == Figure::Kind::stacked_bars) return start + bar_plot(figure, layout);
  return start + scales_of_lines(figure) + line_plot(figure);
}

}  // namespace kolo
