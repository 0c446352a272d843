#include <algorithm>
#include <cmath>
#include <vector>

#include "kolo/base/statistics.h"
#include "kolo/observe/study.h"

namespace kolo {

namespace {

// The first epoch makes kernels and fills caches: where there are at least so many, it is left out
// of what is said about speed.
constexpr std::size_t enough_epochs = 3;

// Of what was measured; one value says nothing of how much they differ.
MeanDeviation over_epochs(const std::vector<EpochRecord>& epochs, double EpochRecord::*member) {
  std::vector<double> values;
  for (const auto& epoch : epochs)
    if (std::isfinite(epoch.*member)) values.push_back(epoch.*member);
  if (values.empty()) return {not_measured, not_measured};
  const auto [mean, deviation] = mean_and_deviation(values);
  return {mean, values.size() < 2 ? not_measured : deviation};
}

// All samples by all of the time: a slow epoch lasts longer, so that the mean of the rates is too
// large.
double whole_rate(const std::vector<EpochRecord>& epochs) {
  double samples = 0, seconds = 0;
  for (const auto& epoch : epochs) {
    if (!std::isfinite(epoch.samples_per_second) || !std::isfinite(epoch.seconds)) continue;
    samples += epoch.samples_per_second * epoch.seconds;
    seconds += epoch.seconds;
  }
  return seconds > 0 ? samples / seconds : not_measured;
}

double best(const std::vector<EpochRecord>& epochs, double EpochRecord::*member, bool largest) {
  double best = not_measured;
  for (const auto& epoch : epochs) {
    const double value = epoch.*member;
    if (!std::isfinite(value)) continue;
    if (!std::isfinite(best) || (largest ? value > best : value < best)) best = value;
  }
  return best;
}

}  // namespace

StudyResults results_of(const History& history) {
  std::vector<EpochRecord> epochs;
  for (const auto& record : history.epochs())
    if (record.epoch > 0) epochs.push_back(record);
  StudyResults results;
  if (epochs.empty()) return results;
  const auto& last = epochs.back();
  results.epochs = static_cast<double>(epochs.size());
  results.loss = last.loss;
  results.accuracy = last.accuracy;
  results.val_loss = last.val_loss;
  results.val_accuracy = last.val_accuracy;
  results.best_loss = best(epochs, &EpochRecord::loss, false);
  results.best_accuracy = best(epochs, &EpochRecord::accuracy, true);
  results.best_val_loss = best(epochs, &EpochRecord::val_loss, false);
  results.best_val_accuracy = best(epochs, &EpochRecord::val_accuracy, true);

  const double steps = static_cast<double>(last.step) / static_cast<double>(last.epoch);
  if (epochs.size() >= enough_epochs) epochs.erase(epochs.begin());
  const auto seconds = over_epochs(epochs, &EpochRecord::seconds);
  results.epoch_seconds = seconds.mean;
  results.epoch_seconds_deviation = seconds.deviation;
  results.samples_per_second = whole_rate(epochs);
  results.samples_per_second_deviation =
      over_epochs(epochs, &EpochRecord::samples_per_second).deviation;
  results.step_seconds = seconds.mean / steps;
  results.data_wait_seconds = over_epochs(epochs, &EpochRecord::data_wait_seconds).mean / steps;
  results.exposed_communication_seconds =
      over_epochs(epochs, &EpochRecord::exposed_communication_seconds).mean / steps;
  return results;
}

}  // namespace kolo
