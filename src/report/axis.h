#pragma once

#include <limits>
#include <string>
#include <vector>

// Where a figure's axes begin and end, and their ticks. The page has the same rules (charts.js).
namespace kolo {

// The smallest and the largest of the values that are numbers.
struct Extent {
  double smallest = std::numeric_limits<double>::infinity();
  double largest = -std::numeric_limits<double>::infinity();

  void add(double value);
  [[nodiscard]] bool is_empty() const { return smallest > largest; }
};

struct Axis {
  double low = 0, high = 1;
  std::vector<double> ticks;  // round numbers, in order
};

inline constexpr double unbounded = std::numeric_limits<double>::infinity();

struct LinearAxisOptions {
  bool whole = false;       // ticks at whole numbers only
  double most = unbounded;  // the axis goes no further where no value does: 100 %
  double room = 0.02;       // beside the values, of what they span
};

// From round number to round number. A single value, also one that many points have, stands in the
// middle between zero and twice as much; zero stands below one.
[[nodiscard]] Axis linear_axis(const Extent& extent, const LinearAxisOptions& options = {});

// Of positive values. Ticks at powers of ten, or also at 2 and 5 times these, or where all is
// within a power of ten as on a linear axis.
[[nodiscard]] Axis logarithmic_axis(const Extent& extent);

// Of seconds since 1970; ticks at round times of the day, no closer than a second.
[[nodiscard]] Axis time_axis(const Extent& extent);

// The ticks of an axis as people read them: "0.0005", "20 000", all with an exponent ("2e-5",
// "1e8") where the largest is below 0.001 or ten million and more; "12 345 671" where that would
// read like its neighbour.
[[nodiscard]] std::vector<std::string> tick_labels(const std::vector<double>& ticks);

// One number so.
[[nodiscard]] std::string tick_label(double value);

}  // namespace kolo
