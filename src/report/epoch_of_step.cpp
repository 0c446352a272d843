#include "report/epoch_of_step.h"

#include <algorithm>
#include <cmath>

#include "kolo/observe/history.h"

namespace kolo {

void EpochOfStep::add(double step, double epoch) {
  const auto [last_step, last_epoch] = places_.back();
  if (std::isfinite(step) && std::isfinite(epoch) && step > last_step && epoch >= last_epoch)
    places_.emplace_back(step, epoch);
}

double EpochOfStep::at(double step) const {
  if (places_.size() < 2) return not_measured;
  // The stretch that ends at or after the step, or the last one.
  const auto end = std::partition_point(places_.begin() + 1, places_.end() - 1,
                                        [=](const auto& place) { return place.first < step; });
  const auto [step_before, epoch_before] = *(end - 1);
  const auto [step_after, epoch_after] = *end;
  return epoch_before +
         (epoch_after - epoch_before) * (step - step_before) / (step_after - step_before);
}

}  // namespace kolo
