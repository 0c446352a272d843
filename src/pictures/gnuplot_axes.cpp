#include "pictures/gnuplot_axes.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ctime>
#include <set>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kolo {

// All that could be more than text (backquotes, which execute what is between them, quotes,
// backslashes) is written by its octal number; so is a digit after one, which gnuplot would take
// for a part of it. Control characters become spaces, and what is no UTF-8 the sign for that, as
// neither can be in an SVG.
std::string in_quotes(std::string_view text) {
  constexpr auto replace = nlohmann::json::error_handler_t::replace;
  const auto valid = nlohmann::json(text).dump(-1, ' ', false, replace);
  std::string result = "\"";
  bool is_after_number = false;
  for (const char letter : nlohmann::json::parse(valid).get<std::string>()) {
    const auto code = static_cast<unsigned char>(letter);
    const bool is_control = code < ' ' || code == 0x7f;
    const bool is_digit = std::isdigit(code) != 0;
    const bool is_plain =
        std::isalpha(code) != 0 || letter == ' ' || code >= 0x80 || (is_digit && !is_after_number);
    is_after_number = !is_control && !is_plain;
    if (is_after_number)
      result += fmt::format("\\{:03o}", code);
    else
      result += is_control ? ' ' : letter;
  }
  return result + "\"";
}

// The same for the label of a tic, which is a format in which % begins a number.
std::string label_in_quotes(const std::string& text) {
  std::string format;
  for (const char letter : text) format += letter == '%' ? "%%" : std::string(1, letter);
  return in_quotes(format);
}

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.12g}", value) : "NaN";
}

namespace {

// "set xrange [0:2]", "set xtics ('0' 0, '1' 1, '2' 2)"
std::string axis_commands(std::string_view name, const Axis& axis,
                          const std::vector<std::string>& labels) {
  std::string list;
  for (std::size_t i = 0; i < axis.ticks.size(); ++i)
    list += fmt::format("{}{} {}", i == 0 ? "" : ", ", label_in_quotes(labels[i]),
                        number(axis.ticks[i]));
  return fmt::format("set {}range [{}:{}]\nset {}tics ({})\n", name, number(axis.low),
                     number(axis.high), name, list);
}

std::vector<std::string> labels_one_by_one(const std::vector<double>& ticks) {
  std::vector<std::string> labels;
  for (const double tick : ticks) labels.push_back(tick_label(tick));
  return labels;
}

// Where the points are, with their deviations; of a logarithmic scale only what it can show.
Extent extent_of_x(const Figure& figure) {
  Extent extent;
  for (const auto& series : figure.series)
    for (const double x : series.x) extent.add(x);
  return extent;
}

Extent extent_of_y(const Figure& figure, bool is_logarithmic) {
  Extent extent;
  for (const auto& series : figure.series) {
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      if (!std::isfinite(series.x[i])) continue;
      const double spread = series.spread.empty() ? 0 : series.spread[i];
      for (const double y : {series.y[i] - spread, series.y[i], series.y[i] + spread})
        if (y > 0 || !is_logarithmic) extent.add(y);
    }
  }
  return extent;
}

// Numbers of ranks are few: each has its tick, as far as there is room for what it says.
Axis axis_of_few(const std::set<double>& values) {
  constexpr double letters = 75;  // that have room along the axis
  const double margin = values.size() == 1 ? 2 : 1.12;
  Axis axis{*values.begin() / margin, *values.rbegin() * margin, {}};
  const double whole = std::log(axis.high / axis.low);
  double end = -1;
  for (const double value : values) {
    const auto half = static_cast<double>(tick_label(value).size() + 1) / 2;
    const double place = letters * std::log(value / axis.low) / whole;
    if (place - half < end) continue;
    axis.ticks.push_back(value);
    end = place + half;
  }
  return axis;
}

std::string logarithmic_x(const Figure& figure) {
  constexpr std::size_t few = 16;
  std::set<double> values;
  for (const auto& series : figure.series)
    for (const double x : series.x)
      if (std::isfinite(x)) values.insert(x);
  const auto axis = values.empty() || values.size() > few ? logarithmic_axis(extent_of_x(figure))
                                                          : axis_of_few(values);
  return "set logscale x\n" + axis_commands("x", axis, labels_one_by_one(axis.ticks));
}

// "2026-11-22", "11-22 14:05", "14:05", "14:05:09", by how much an axis spans.
std::string time_label(double time, double span) {
  const auto moment = fmt::gmtime(static_cast<std::time_t>(time));
  if (span > 4 * 86400) return fmt::format("{:%Y-%m-%d}", moment);
  if (span > 86400) return fmt::format("{:%m-%d %H:%M}", moment);
  return span < 600 ? fmt::format("{:%H:%M:%S}", moment) : fmt::format("{:%H:%M}", moment);
}

bool is_in_percent(const std::string& label) {
  return label.ends_with('%');
}

std::string linear_x(const Figure& figure) {
  const auto extent = extent_of_x(figure);
  if (!figure.x_is_time) {
    const bool counts = figure.x_label == "epoch" || figure.x_label == "step";
    const auto axis = linear_axis(
        extent,
        {.whole = counts, .most = is_in_percent(figure.x_label) ? 100 : unbounded, .room = 0});
    return axis_commands("x", axis, tick_labels(axis.ticks));
  }
  const auto axis = time_axis(extent);
  std::vector<std::string> labels;
  for (const double tick : axis.ticks) labels.push_back(time_label(tick, axis.high - axis.low));
  return axis_commands("x", axis, labels);
}

bool is_positive(const Figure& figure, std::vector<double> FigureSeries::*coordinate) {
  return std::ranges::all_of(figure.series, [&](const FigureSeries& series) {
    return std::ranges::none_of(series.*coordinate, [](double value) { return value <= 0; });
  });
}

bool has_logarithmic_y(const Figure& figure) {
  return figure.y_logarithmic && is_positive(figure, &FigureSeries::y);
}

// From zero to the highest bar.
Extent heights_of(const Figure& figure) {
  Extent extent;
  extent.add(0);
  for (std::size_t bar = 0; bar < figure.categories.size(); ++bar) {
    double height = 0;
    for (const auto& series : figure.series) {
      const double part = bar < series.y.size() ? series.y[bar] : 0;
      height += std::isfinite(part) ? part : 0;
    }
    extent.add(height);
  }
  return extent;
}

}  // namespace

Axis y_axis(const Figure& figure) {
  const bool is_logarithmic = has_logarithmic_y(figure);
  const auto extent = extent_of_y(figure, is_logarithmic);
  if (is_logarithmic) return logarithmic_axis(extent);
  return linear_axis(extent, {.most = is_in_percent(figure.y_label) ? 100 : unbounded});
}

std::string scales_of_lines(const Figure& figure) {
  const bool is_x_logarithmic = figure.x_logarithmic && is_positive(figure, &FigureSeries::x);
  auto text = is_x_logarithmic ? logarithmic_x(figure) : linear_x(figure);
  const auto axis = y_axis(figure);
  const bool is_y_logarithmic = has_logarithmic_y(figure);
  if (is_y_logarithmic) text += "set logscale y\n";
  return text +
         axis_commands("y", axis,
                       is_y_logarithmic ? labels_one_by_one(axis.ticks) : tick_labels(axis.ticks));
}

std::string scale_of_bars(const Figure& figure) {
  const auto axis = linear_axis(heights_of(figure));
  return axis_commands("y", axis, tick_labels(axis.ticks));
}

}  // namespace kolo
