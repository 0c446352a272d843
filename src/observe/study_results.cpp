#include <algorithm>
#include <cmath>
#include <vector>

#include "kolo/observe/study.h"

namespace kolo {

namespace {

// The first epoch makes kernels and fills caches: where there are at least so many, it is left out
// of what is said about speed.
constexpr std::size_t enough_epochs = 3;

struct MeanAndDeviation {
  double mean = not_measured, deviation = not_measured;
};

// Of what was measured; the deviation is that of single values.
MeanAndDeviation mean_and_deviation(const std::vector<EpochRecord>& epochs,
                                    double EpochRecord::*member) {
  double sum = 0, count = 0;
  for (const auto& epoch : epochs) {
    if (!std::isfinite(epoch.*member)) continue;
    sum += epoch.*member;
    ++count;
  }
  if (count == 0) return {};
  const double mean = sum / count;
  if (count == 1) return {mean, not_measured};
  double squares = 0;
  for (const auto& epoch : epochs)
    if (std::isfinite(epoch.*member)) squares += std::pow(epoch.*member - mean, 2);
  return {mean, std::sqrt(squares / (count - 1))};
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
  const auto seconds = mean_and_deviation(epochs, &EpochRecord::seconds);
  const auto rate = mean_and_deviation(epochs, &EpochRecord::samples_per_second);
  results.epoch_seconds = seconds.mean;
  results.epoch_seconds_deviation = seconds.deviation;
  results.samples_per_second = rate.mean;
  results.samples_per_second_deviation = rate.deviation;
  results.step_seconds = seconds.mean / steps;
  results.data_wait_seconds =
      mean_and_deviation(epochs, &EpochRecord::data_wait_seconds).mean / steps;
  results.exposed_communication_seconds =
      mean_and_deviation(epochs, &EpochRecord::exposed_communication_seconds).mean / steps;
  return results;
}

}  // namespace kolo
