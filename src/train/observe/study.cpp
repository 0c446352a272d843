#include "kolo/train/observe/study.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_value.h"
#include "kolo/base/file.h"
#include "kolo/base/statistics.h"
#include "train/observe/json_fields.h"

namespace kolo {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto study_results_fields = [](auto& field, auto& results) {
  field.measured("epochs", results.epochs);
  field.measured("epoch_seconds", results.epoch_seconds);
  field.measured("epoch_seconds_deviation", results.epoch_seconds_deviation);
  field.measured("samples_per_second", results.samples_per_second);
  field.measured("samples_per_second_deviation", results.samples_per_second_deviation);
  field.measured("step_seconds", results.step_seconds);
  field.measured("data_wait_seconds", results.data_wait_seconds);
  field.measured("exposed_communication_seconds", results.exposed_communication_seconds);
  field.measured("peak_memory_bytes", results.peak_memory_bytes);
  field.measured("loss", results.loss);
  field.measured("accuracy", results.accuracy);
  field.measured("val_loss", results.val_loss);
  field.measured("val_accuracy", results.val_accuracy);
  field.measured("best_loss", results.best_loss);
  field.measured("best_accuracy", results.best_accuracy);
  field.measured("best_val_loss", results.best_val_loss);
  field.measured("best_val_accuracy", results.best_val_accuracy);
};

constexpr auto point_fields = [](auto& field, auto& point) {
  field("ranks", point.ranks);
  field("nodes", point.nodes);
  field("batch_size", point.batch_size);
  field.if_any("batch_of", point.batch_of);
  field("lr_scaling", point.lr_scaling);
  field("warmup_epochs", point.warmup_epochs);
  field("state", point.state);
  field("folder", point.folder);
  field("job", point.job);
  field("problem", point.problem);
  field.measured("efficiency", point.efficiency);
  field.record("results", point.results, study_results_fields);
  field.if_any("spatial", point.spatial);
  field.if_measured("kept_bytes", point.kept_bytes);
};

constexpr auto study_fields = [](auto& field, auto& study) {
  field("name", study.name);
  field("configuration", study.configuration);
  field("scaling", study.scaling);
  field("parallel", study.parallel);
  field("settings", study.settings);
  field("threads", study.threads);
  field("cores", study.cores);
  field.list("points", study.points, point_fields);
};

// Point with the fewest ranks of this learning-rate scaling and warm-up, to which the others are
// related.
const StudyPoint* first_of_line(const Study& study, const StudyPoint& line) {
  const StudyPoint* first = nullptr;
  for (const StudyPoint& point : study.points) {
    const bool is_of_line = std::isfinite(point.results.samples_per_second) &&
                            point.lr_scaling == line.lr_scaling &&
                            point.warmup_epochs == line.warmup_epochs;
    if (is_of_line && (first == nullptr || point.ranks < first->ranks)) first = &point;
  }
  return first;
}

}  // namespace

std::string cut_of(const StudyPoint& point) {
  return point.spatial.empty() ? "" : fmt::format("[{}]", fmt::join(point.spatial, ","));
}

Json Study::to_json() const {
  return json_of(*this, study_fields);
}

Study Study::from_json(const Json& document) {
  return document_from<Study>("study", document, study_fields);
}

void Study::write(const std::filesystem::path& path) const {
  write_file_atomically(path, to_json().dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Study Study::read(const std::filesystem::path& path) {
  return read_document<Study>(path, "rename or remove it to begin the study's list anew");
}

void fill_in_efficiency(Study& study) {
  for (StudyPoint& point : study.points) {
    const StudyPoint* const first = first_of_line(study, point);
    point.efficiency = first == nullptr
                           ? not_measured
                           : point.results.samples_per_second / first->results.samples_per_second *
                                 first->ranks / point.ranks;
  }
}

namespace {

// From so many epochs on the first one, which fills caches, is left out of speeds.
constexpr std::size_t enough_epochs = 3;

// Mean and deviation of the epochs that were measured; one epoch alone has no deviation.
MeanDeviation over_epochs(const std::vector<EpochRecord>& epochs, double EpochRecord::*member) {
  std::vector<double> values;
  for (const auto& epoch : epochs)
    if (std::isfinite(epoch.*member)) values.push_back(epoch.*member);
  if (values.empty()) return {not_measured, not_measured};
  const auto [mean, deviation] = mean_and_deviation(values);
  return {mean, values.size() < 2 ? not_measured : deviation};
}

// All samples over all of the time: the mean of rates would weigh slow epochs too little.
double whole_rate(const std::vector<EpochRecord>& epochs) {
  double samples = 0, seconds = 0;
  for (const auto& epoch : epochs) {
    if (!std::isfinite(epoch.samples_per_second) || !std::isfinite(epoch.seconds)) continue;
    samples += epoch.samples_per_second * epoch.seconds;
    seconds += epoch.seconds;
  }
  return seconds > 0 ? samples / seconds : not_measured;
}

// All seconds over all steps, as epochs may have unequal numbers of them. `before`: steps done at
// the beginning of the first epoch.
double of_a_step(const std::vector<EpochRecord>& epochs, std::int64_t before,
                 double EpochRecord::*member) {
  double seconds = 0, steps = 0;
  for (const auto& epoch : epochs) {
    const auto made = epoch.step - std::exchange(before, epoch.step);
    if (!std::isfinite(epoch.*member)) continue;
    seconds += epoch.*member;
    steps += static_cast<double>(made);
  }
  return steps > 0 ? seconds / steps : not_measured;
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
  results.peak_memory_bytes = number_or_unmeasured(history.summary(), "peak_memory_bytes");

  std::int64_t before = 0;  // steps of the epoch that is left out
  if (epochs.size() >= enough_epochs) {
    before = epochs.front().step;
    epochs.erase(epochs.begin());
  }
  const auto seconds = over_epochs(epochs, &EpochRecord::seconds);
  results.epoch_seconds = seconds.mean;
  results.epoch_seconds_deviation = seconds.deviation;
  results.samples_per_second = whole_rate(epochs);
  results.samples_per_second_deviation =
      over_epochs(epochs, &EpochRecord::samples_per_second).deviation;
  results.step_seconds = of_a_step(epochs, before, &EpochRecord::seconds);
  results.data_wait_seconds = of_a_step(epochs, before, &EpochRecord::data_wait_seconds);
  results.exposed_communication_seconds =
      of_a_step(epochs, before, &EpochRecord::exposed_communication_seconds);
  return results;
}

}  // namespace kolo
