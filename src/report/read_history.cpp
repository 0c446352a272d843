#include "report/read_history.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/observe/history.h"
#include "report/epoch_of_step.h"
#include "report/settings.h"

namespace kolo {

namespace {

template <typename Record>
struct RecordedCurve {
  const char* quantity;
  const char* part;
  double Record::*value;
};

constexpr RecordedCurve<EpochRecord> epoch_curves[] = {
    {"loss", "training", &EpochRecord::loss},
    {"loss", "validation", &EpochRecord::val_loss},
    {"accuracy", "training", &EpochRecord::accuracy},
    {"accuracy", "validation", &EpochRecord::val_accuracy},
    {"top_accuracy", "training", &EpochRecord::top_accuracy},
    {"top_accuracy", "validation", &EpochRecord::val_top_accuracy},
    {"learning_rate", "", &EpochRecord::lr},
    {"samples_per_second", "", &EpochRecord::samples_per_second},
    {"epoch_seconds", "", &EpochRecord::seconds},
    {"data_wait_seconds", "", &EpochRecord::data_wait_seconds},
    {"exposed_communication_seconds", "", &EpochRecord::exposed_communication_seconds}};

constexpr RecordedCurve<StepRecord> step_curves[] = {
    {"loss", "training", &StepRecord::loss},
    {"accuracy", "training", &StepRecord::accuracy},
    {"learning_rate", "", &StepRecord::lr},
    {"samples_per_second", "", &StepRecord::samples_per_second}};

// One curve of a list of records; epochs(record) says where a record stands.
template <typename Record, typename Epochs>
Curve curve_of(const RecordedCurve<Record>& recorded, std::span<const Record> records,
               const Epochs& epochs) {
  Curve curve{recorded.quantity, recorded.part, std::is_same_v<Record, StepRecord>, {}};
  for (const Record& record : records) {
    const double value = record.*recorded.value;
    if (std::isnan(value)) continue;
    curve.points.push_back({value, epochs(record), static_cast<double>(record.step), record.time});
  }
  return curve;
}

std::vector<Curve> curves_of(const History& history) {
  EpochOfStep epoch_of_step;
  for (const EpochRecord& record : history.epochs()) {
    epoch_of_step.add(static_cast<double>(record.step), static_cast<double>(record.epoch));
  }
  std::vector<Curve> curves;
  for (const auto& recorded : epoch_curves) {
    curves.push_back(curve_of(recorded, history.epochs(), [](const EpochRecord& record) {
      return static_cast<double>(record.epoch);
    }));
  }
  for (const auto& recorded : step_curves) {
    curves.push_back(curve_of(recorded, history.steps(), [&](const StepRecord& record) {
      return epoch_of_step.at(static_cast<double>(record.step));
    }));
  }
  std::erase_if(curves, [](const Curve& curve) { return curve.points.empty(); });
  return curves;
}

// The number, its digits in groups, that stands before `what`; earlier versions wrote commas between
// the groups.
std::optional<std::int64_t> number_before(std::string_view text, std::string_view what) {
  const auto end = text.find(what);
  if (end == std::string_view::npos) return std::nullopt;
  const auto before = text.substr(0, end).find_last_not_of("0123456789 ,");
  const auto begin = before == std::string_view::npos ? 0 : before + 1;
  std::string digits(text.substr(begin, end - begin));
  std::erase_if(digits, [](char letter) { return letter == ',' || letter == ' '; });
  std::int64_t number = 0;
  const char* last = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), last, number);
  if (error != std::errc() || stop != last) return std::nullopt;
  return number;
}

// The last line of model.txt: "1 234 trainable parameters, 0 frozen, 56 values in buffers".
std::optional<std::int64_t> parameters_in(std::string_view summary) {
  const auto trainable = number_before(summary, " trainable parameters, ");
  const auto frozen = number_before(summary, " frozen, ");
  if (!trainable || !frozen) return std::nullopt;
  return checked_add(*trainable, *frozen);
}

History history_in(const std::filesystem::path& path) {
  try {
    return History::read(path);
  } catch (const Error& error) {
    throw InputError(error.what());
  }
}

}  // namespace

RunRecord read_history(const std::filesystem::path& path) {
  const History history = history_in(path);
  RunRecord run;
  run.writer = "kolo";
  run.ranks = history.n_ranks();
  run.is_finished = !history.summary().empty();
  run.curves = curves_of(history);
  // What stands beside it is good to have, but no run fails for it.
  const auto beside = [&](const char* name, const auto& read) {
    const auto file = path.parent_path() / name;
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) return;
    try {
      read(file);
    } catch (const Error& error) {
      run.warnings.push_back(error.what());
    }
  };
  beside("config.yaml", [&](const auto& file) { run.settings = read_settings(file); });
  beside("model.txt", [&](const auto& file) {
    run.parameters = parameters_in(read_text_file(file));
    if (!run.parameters)
      run.warnings.push_back(
          fmt::format("{}: no line tells the number of parameters", file.string()));
  });
  return run;
}

}  // namespace kolo
