#include "report/event_epochs.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "report/epoch_of_step.h"

namespace kolo {

namespace {

const TaggedCurve* find_tag(const std::vector<TaggedCurve>& curves, std::string_view tag) {
  const auto curve = std::ranges::find(curves, tag, &TaggedCurve::tag);
  return curve == curves.end() ? nullptr : &*curve;
}

// Each step is the one after that before it.
bool counts_up(const TaggedCurve& curve) {
  const double first = curve.points.front().step;
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    if (curve.points[i].step != first + static_cast<double>(i)) return false;
  }
  return true;
}

bool counts_from_the_start(const TaggedCurve& curve) {
  return curve.points.front().step <= 1 && counts_up(curve);
}

// A scalar "epoch": the number of the epoch that goes on at a step, from 0 or 1, or how many are
// done, with fractions.
EpochOfStep epochs_in(const TaggedCurve& curve) {
  const auto& points = curve.points;
  const auto by_value = [](const CurvePoint& a, const CurvePoint& b) { return a.value < b.value; };
  const double least = std::ranges::min_element(points, by_value)->value;
  const bool has_fractions = std::ranges::any_of(
      points, [](const CurvePoint& point) { return point.value != std::floor(point.value); });
  EpochOfStep epochs;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (has_fractions) {
      epochs.add(points[i].step, points[i].value);
    } else if (i + 1 < points.size() && points[i + 1].value > points[i].value) {
      // The last step of an epoch. Where the one that goes on ends, nobody knows yet.
      epochs.add(points[i].step, points[i].value + (least < 1 ? 1 : 0));
    }
  }
  return epochs;
}

// kolo writes one value an epoch, and one before training at step 0.
EpochOfStep epochs_of_kolo(const TaggedCurve& loss) {
  EpochOfStep epochs;
  double epoch = 0;
  for (const CurvePoint& point : loss.points) epochs.add(point.step, ++epoch);
  return epochs;
}

std::optional<EpochOfStep> epochs_told(const std::vector<TaggedCurve>& curves) {
  const auto number = std::ranges::find_if(
      curves, [](const TaggedCurve& curve) { return curve.meaning.is_epoch_number; });
  if (number != curves.end()) return epochs_in(*number);
  const TaggedCurve* loss = find_tag(curves, "loss/train");
  if (loss != nullptr && find_tag(curves, "learning_rate") != nullptr &&
      find_tag(curves, "samples_per_second") != nullptr) {
    return epochs_of_kolo(*loss);
  }
  return std::nullopt;
}

// Nobody validates after every single step: such steps are epochs. The last one, or none.
std::optional<double> last_step_of_epochs(const std::vector<TaggedCurve>& curves) {
  std::optional<double> last;
  for (const TaggedCurve& curve : curves) {
    if (curve.meaning.part == "validation" && curve.meaning.pace != TagMeaning::Pace::step &&
        curve.points.size() > 1 && counts_from_the_start(curve)) {
      last = std::max(last.value_or(0), curve.points.back().step);
    }
  }
  return last;
}

// The curves whose steps are epochs.
std::vector<TaggedCurve*> curves_by_epoch(std::vector<TaggedCurve>& curves) {
  const auto last = last_step_of_epochs(curves);
  std::vector<TaggedCurve*> found;
  for (TaggedCurve& curve : curves) {
    const bool keeps_time_with_validation = last && curve.meaning.pace != TagMeaning::Pace::step &&
                                            std::abs(curve.points.back().step - *last) <= 1 &&
                                            counts_from_the_start(curve);
    if (keeps_time_with_validation || (curve.meaning.counts_epochs && counts_up(curve)))
      found.push_back(&curve);
  }
  return found;
}

// Counted from 0, an epoch's number is one less than how many are done at its end. Where some
// curves begin at 1, others' 0 is before training.
void take_steps_for_epochs(std::span<TaggedCurve* const> curves) {
  double first = 0;
  for (const TaggedCurve* curve : curves) first = std::max(first, curve->points.front().step);
  const double done_at_0 = first == 0 ? 1 : 0;
  for (TaggedCurve* curve : curves) {
    curve->meaning.pace = TagMeaning::Pace::epoch;
    for (CurvePoint& point : curve->points) {
      point.epoch = point.step + (curve->meaning.counts_epochs ? 1 : done_at_0);
      point.step = not_measured;
    }
  }
}

}  // namespace

void fill_in_epochs(std::vector<TaggedCurve>& curves) {
  if (const auto epochs = epochs_told(curves)) {
    for (TaggedCurve& curve : curves) {
      for (CurvePoint& point : curve.points) point.epoch = epochs->at(point.step);
    }
  } else {
    take_steps_for_epochs(curves_by_epoch(curves));
  }
}

}  // namespace kolo
