#include "report/run_curves.h"

#include <algorithm>
#include <cmath>

namespace kolo {

namespace {

struct Span {
  double first = not_measured, last = not_measured;
};

Span span_of(const RunRecord& run) {
  Span span;
  for (const auto& curve : run.curves) {
    for (const auto& point : curve.points) {
      if (!std::isfinite(point.time)) continue;
      span.first = std::fmin(span.first, point.time);  // the other one when one is not a number
      span.last = std::fmax(span.last, point.time);
    }
  }
  return span;
}

}  // namespace

double start_of(const RunRecord& run) {
  return span_of(run).first;
}

TimeUnit unit_for(double longest_seconds) {
  if (longest_seconds < 300) return {"seconds", 1};
  if (longest_seconds < 3 * 3600) return {"minutes", 60};
  if (longest_seconds < 72 * 3600) return {"hours", 3600};
  return {"days", 24 * 3600};
}

TimeUnit unit_for(std::span<const RunRecord> runs) {
  double longest = 0;
  for (const auto& run : runs) {
    const auto span = span_of(run);
    longest = std::fmax(longest, span.last - span.first);
  }
  return unit_for(longest);
}

}  // namespace kolo
