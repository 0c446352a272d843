#include "report/run_readers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

std::vector<std::filesystem::path> event_files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;  // a folder that can't be listed has no files for us
  for (std::filesystem::directory_iterator entry(folder, error), none; !error && entry != none;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().filename().string().find("tfevents") != std::string::npos &&
        entry->is_regular_file(ignored)) {
      files.push_back(entry->path());
    }
  }
  std::ranges::sort(files);
  return files;
}

EventFolder read_event_folder(const std::filesystem::path& folder,
                              std::span<const std::filesystem::path> files) {
  EventFolder result{.path = folder};
  std::vector<EventFile> read;
  for (const auto& file : files) {
    try {
      read.push_back(read_event_file(file));
      result.other_values += read.back().other_values;
      if (!read.back().damage.empty()) result.warnings.push_back(read.back().damage);
    } catch (const InputError& error) {
      result.warnings.push_back(error.what());
    }
  }
  if (read.empty() && !result.warnings.empty()) throw InputError(result.warnings.front());
  result.scalars = scalars_in_effect(read);
  return result;
}

namespace {

// All values of one scalar of a run.
struct TaggedCurve {
  std::string tag;
  std::string folder_part;
  TagMeaning meaning;
  bool by_step = false;  // as in Curve
  std::vector<CurvePoint> points;
};

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

// kolo writes one value per epoch, and one before training at step 0.
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

// Fills in the points' epochs where the curves tell them: a scalar named "epoch"; tags whose steps
// are epochs; validations at each step in turn, which can only be epochs; kolo's own tags. Steps
// that turn out to be epochs are no steps any more.
void fill_in_epochs(std::vector<TaggedCurve>& curves) {
  if (const auto epochs = epochs_told(curves)) {
    for (TaggedCurve& curve : curves) {
      for (CurvePoint& point : curve.points) point.epoch = epochs->at(point.step);
    }
  } else {
    take_steps_for_epochs(curves_by_epoch(curves));
  }
}

using Pace = TagMeaning::Pace;

// One curve for each tag of each folder, in the order in which they first occur.
std::vector<TaggedCurve> tagged_curves(std::span<const EventFolder> folders) {
  std::vector<TaggedCurve> curves;
  for (const EventFolder& folder : folders) {
    std::map<std::string, std::size_t> places;
    for (const ScalarEvent& scalar : folder.scalars) {
      const auto [place, is_new] = places.try_emplace(scalar.tag, curves.size());
      if (is_new) {
        const std::string tag = scalar.tag + folder.added_to_tag;
        curves.push_back({tag, folder.part, meaning_of_tag(tag, folder.part), false, {}});
      }
      curves[place->second].points.push_back(
          {scalar.value, not_measured, static_cast<double>(scalar.step), scalar.time});
    }
  }
  return curves;
}

// Where a tag doesn't say whether its values are of epochs or of steps: of steps when there are
// very many, beside the validation's or in themselves.
bool is_by_step(const TaggedCurve& curve, std::span<const TaggedCurve> all) {
  if (curve.meaning.pace != Pace::unknown) return curve.meaning.pace == Pace::step;
  constexpr std::size_t many = 1000, many_a_validation = 20;
  const auto validation = std::ranges::find_if(all, [&](const TaggedCurve& other) {
    return other.meaning.quantity == curve.meaning.quantity && other.meaning.part == "validation";
  });
  return validation == all.end() || &*validation == &curve
             ? curve.points.size() > many
             : curve.points.size() > many_a_validation * validation->points.size();
}

void make_fractions(TaggedCurve& curve, std::vector<std::string>& notes) {
  if (curve.meaning.quantity != "accuracy" && curve.meaning.quantity != "top_accuracy") return;
  const bool is_percent =
      std::ranges::any_of(curve.points, [](const CurvePoint& point) { return point.value > 1.01; });
  if (!is_percent) return;
  for (CurvePoint& point : curve.points) point.value /= 100;
  notes.push_back(fmt::format("{} has values above 1: taken as percent", curve.tag));
}

bool is_same_curve(const Curve& a, const Curve& b) {
  return a.quantity == b.quantity && a.part == b.part && a.by_step == b.by_step;
}

}  // namespace

std::vector<Curve> curves_of_events(std::span<const EventFolder> folders,
                                    std::vector<std::string>& notes) {
  std::vector<TaggedCurve> tagged = tagged_curves(folders);
  // A test set's curves come last, so that they take a validation's place only where it is free.
  std::ranges::stable_partition(tagged,
                                [](const TaggedCurve& curve) { return !curve.meaning.is_test; });
  fill_in_epochs(tagged);
  for (TaggedCurve& curve : tagged) curve.by_step = is_by_step(curve, tagged);
  std::vector<Curve> curves;
  for (TaggedCurve& from : tagged) {
    if (from.meaning.is_epoch_number) continue;
    make_fractions(from, notes);
    Curve curve{from.meaning.quantity, from.meaning.part, from.by_step, {}};
    const auto is_taken = [&](const Curve& other) { return is_same_curve(curve, other); };
    if (std::ranges::any_of(curves, is_taken)) {
      curve.quantity = from.tag;
      curve.part = from.folder_part;
    }
    curve.points = std::move(from.points);
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace kolo
