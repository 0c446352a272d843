#include "report/event_curves.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "report/event_epochs.h"
#include "report/tagged_curve.h"

namespace kolo {

namespace {

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
