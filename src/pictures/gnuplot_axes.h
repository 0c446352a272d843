#pragma once

#include <string>
#include <string_view>

#include "kolo/report/figure.h"
#include "report/axis.h"

// What is said to gnuplot of a figure's axes, and how text and numbers are said to it.
namespace kolo {

// A string in which nothing is anything but text.
[[nodiscard]] std::string in_quotes(std::string_view text);

// The same for the label of a tick, which gnuplot takes for a format.
[[nodiscard]] std::string label_in_quotes(const std::string& text);

// As gnuplot reads it; NaN for what is not finite.
[[nodiscard]] std::string number(double value);

[[nodiscard]] Axis y_axis(const Figure& figure);

// Ranges and ticks of both axes.
[[nodiscard]] std::string scales_of_lines(const Figure& figure);

// Of the axis along which bars are as long as their values.
[[nodiscard]] std::string scale_of_bars(const Figure& figure);

}  // namespace kolo
