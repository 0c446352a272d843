#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <system_error>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/report/run_record.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/observe/history.h"
#include "settings/yaml/yaml.h"

namespace kolo {

const Curve* RunRecord::find(std::string_view quantity, std::string_view split,
                             bool by_step) const {
  const auto curve = std::ranges::find_if(curves, [&](const Curve& candidate) {
    return candidate.quantity == quantity && candidate.split == split &&
           candidate.by_step == by_step;
  });
  return curve == curves.end() ? nullptr : &*curve;
}

std::string RunRecord::setting(std::string_view key) const {
  const auto found = std::ranges::find(settings, key, &decltype(settings)::value_type::first);
  return found == settings.end() ? "" : found->second;
}

bool is_own_file(const std::filesystem::path& file, std::string_view start, std::string_view mark) {
  std::string text(4096, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text.starts_with(start) && text.find(mark) != std::string::npos;
}

bool is_drawing(const std::filesystem::path& file) {
  return is_own_file(file, "\x89PNG", png_mark);
}

std::string png_caption(std::string_view png) {
  const auto chunk = png.find("iTXt" + std::string(png_caption_key));
  if (chunk == std::string_view::npos || chunk < 4) return {};
  std::size_t length = 0;
  for (const char byte : png.substr(chunk - 4, 4))
    length = 256 * length + static_cast<unsigned char>(byte);
  if (length < png_caption_key.size()) return {};
  return std::string(
      png.substr(chunk + 4 + png_caption_key.size(), length - png_caption_key.size()));
}

void make_names_distinct(std::vector<RunRecord>& runs) {
  std::map<std::string, int> uses;
  for (const auto& run : runs) ++uses[run.name];
  for (auto& run : runs)
    if (uses[run.name] > 1) run.name = run.source.string();
  uses.clear();
  for (auto& run : runs)  // the same run twice, say
    if (const int number = ++uses[run.name]; number > 1)
      run.name = fmt::format("{} ({})", run.name, number);
}

namespace {

template <typename Record>
struct RecordedCurve {
  const char* quantity;
  const char* split;
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

// Epochs done after so many steps: interpolated between places where both are known, and
// extrapolated at the last stretch's pace. Training begins at step 0.
class EpochOfStep {
 public:
  // Adds a place, in order; one that is not beyond the last is ignored.
  void add(double step, double epoch) {
    const auto [last_step, last_epoch] = known_.back();
    if (step > last_step && epoch >= last_epoch) known_.emplace_back(step, epoch);
  }
  // not_measured without any place.
  [[nodiscard]] double at(double step) const {
    if (known_.size() < 2) return not_measured;
    // The stretch that ends at or after the step, or the last one.
    const auto end = std::partition_point(known_.begin() + 1, known_.end() - 1,
                                          [=](const auto& place) { return place.first < step; });
    const auto [step_before, epoch_before] = *(end - 1);
    const auto [step_after, epoch_after] = *end;
    return epoch_before +
           (epoch_after - epoch_before) * (step - step_before) / (step_after - step_before);
  }

 private:
  std::vector<std::pair<double, double>> known_ = {{0, 0}};
};

// One curve of a list of records; epochs(record) says where a record stands.
template <typename Record, typename Epochs>
Curve curve_of(const RecordedCurve<Record>& recorded, std::span<const Record> records,
               const Epochs& epochs) {
  Curve curve{recorded.quantity, recorded.split, std::is_same_v<Record, StepRecord>, {}};
  for (const Record& record : records) {
    const double value = record.*recorded.value;
    if (std::isnan(value)) continue;
    curve.points.push_back(
        {value, epochs(record), static_cast<double>(record.step), record.time, record.elapsed});
  }
  return curve;
}

std::vector<Curve> curves_of(const History& history) {
  EpochOfStep epoch_of_step;
  for (const EpochRecord& record : history.epochs())
    epoch_of_step.add(static_cast<double>(record.step), static_cast<double>(record.epoch));
  if (const auto& epoch = history.epoch_under_way())
    epoch_of_step.add(static_cast<double>(epoch->last_step), static_cast<double>(epoch->epoch));
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

// Parameters in the last line of model.txt: "1 234 trainable parameters, 0 frozen, 56 values in
// buffers".
std::optional<std::int64_t> parameters_in(std::string summary) {
  std::erase(summary, ' ');
  const auto number_before = [&](std::string_view what) -> std::optional<std::int64_t> {
    const auto end = summary.find(what);
    if (end == std::string::npos || end == 0) return std::nullopt;
    const auto begin = summary.find_last_not_of("0123456789", end - 1) + 1;  // 0 where all are
    return parse_number<std::int64_t>(summary.substr(begin, end - begin));
  };
  const auto trainable = number_before("trainableparameters,");
  const auto frozen = number_before("frozen,");
  if (!trainable || !frozen) return std::nullopt;
  return checked_add(*trainable, *frozen);
}

using Json = nlohmann::ordered_json;

// A text of a start; empty where it has none.
std::string text_of(const Json& start, const char* name) {
  const auto found = start.is_object() ? start.find(name) : start.end();
  return found != start.end() && found->is_string() ? found->get<std::string>() : "";
}

// "0.1.0, git 6e74f51719d7 with changes"
std::string version_of(const Json& start) {
  constexpr std::size_t short_hash = 12;
  const auto version = text_of(start, "version"), commit = text_of(start, "commit");
  if (commit.empty()) return version;
  return fmt::format("{}, git {}{}", version, commit.substr(0, short_hash),
                     commit.ends_with("-dirty") ? " with changes" : "");
}

// The texts that aren't empty, with commas.
std::string joined(std::vector<std::string> texts) {
  std::erase(texts, "");
  return join(texts);
}

// How a run was made, for people. `starts`: the list in its run.json; what isn't there is left out.
std::vector<std::pair<std::string, std::string>> facts_of(const RunRecord& run,
                                                          const Json& starts) {
  const bool has_starts = starts.is_array() && !starts.empty();
  const Json first = has_starts ? starts.front() : Json();
  const auto resumptions = has_starts ? std::ssize(starts) - 1 : 0;
  const auto parameters =
      run.parameters ? fmt::format("{} parameters", format_count(*run.parameters)) : "";
  std::vector<std::pair<std::string, std::string>> facts = {
      {"command", text_of(first, "command")},
      {"directory", text_of(first, "directory")},
      {"begun", text_of(first, "time")},
      {"resumed", resumptions == 0 ? ""
                                   : fmt::format("{}, last on {}", counted(resumptions, "time"),
                                                 text_of(starts.back(), "time"))},
      {"machine", joined({text_of(first, "host"), text_of(first, "machine")})},
      {"ranks", run.ranks ? fmt::format("{}", *run.ranks) : ""},
      {"network", joined({run.setting("model.name"), parameters})},
      {"data", run.setting("data.name")},
      {"kolo", version_of(first)}};
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
  return facts;
}

// Reads a run from its history.json, and settings and parameters from config.yaml and model.txt if
// they are beside it.
RunRecord read_history(const std::filesystem::path& path) {
  const History history = History::read(path);
  RunRecord run;
  run.ranks = history.n_ranks();
  run.is_finished = !history.summary().empty();
  run.curves = curves_of(history);
  run.results = results_of(history);
  // Other files are optional: problems become warnings.
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
  beside("config.yaml", [&](const auto& file) {
    run.settings = flattened(read_yaml_file(file));
    run.configuration = read_text_file(file);
  });
  beside("model.txt", [&](const auto& file) {
    run.parameters = parameters_in(read_text_file(file));
    if (!run.parameters)
      run.warnings.push_back(
          fmt::format("{}: no line tells the number of parameters", file.string()));
  });
  Json starts;
  beside("run.json", [&](const auto& file) {
    const auto document = Json::parse(read_text_file(file), nullptr, false);
    if (document.is_object()) starts = document.value("starts", starts);
  });
  run.facts = facts_of(run, starts);
  return run;
}

// The run's name: its folder's, or of a folder "logs" its parent's.
std::string name_of_folder(const std::filesystem::path& folder) {
  auto path = std::filesystem::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // it ended with a slash
  const std::string name = path.filename();
  const bool is_everybodys = name == "logs" || name == "tensorboard";
  return is_everybodys && path.parent_path().has_filename() ? path.parent_path().filename()
                                                            : path.filename();
}

// Reads a run folder's pictures in the order of their names; only kolo's own are shown.
void read_pictures(const std::filesystem::path& folder, RunRecord& run) {
  constexpr std::uintmax_t most_bytes = 4 << 20;
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "pictures", error))
    if (entry.path().extension() == ".png" && is_drawing(entry.path()))
      files.push_back(entry.path());
  std::ranges::sort(files);
  for (const auto& file : files) {
    if (std::filesystem::file_size(file, error) > most_bytes) {
      run.warnings.push_back(fmt::format("{} is too large to be shown", file.string()));
      continue;
    }
    auto png = read_text_file(file);
    const auto caption = png_caption(png);
    run.pictures.push_back({caption, std::move(png)});
  }
}

constexpr int deepest_run = 6;

// The folders of runs in a folder and below it, in order; links to folders are not followed.
std::vector<std::filesystem::path> runs_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> runs;
  std::error_code error;  // a folder that can't be listed counts as empty
  if (std::filesystem::exists(folder / "history.json", error)) return {folder};
  constexpr auto options = std::filesystem::directory_options::skip_permission_denied;
  for (std::filesystem::recursive_directory_iterator entry(folder, options, error), none;
       !error && entry != none; entry.increment(error)) {
    const bool is_run = entry->path().filename() == "history.json";
    if (is_run) runs.push_back(entry->path().parent_path());
    if (entry.depth() == deepest_run) entry.disable_recursion_pending();
  }
  std::ranges::sort(runs);
  return runs;
}

[[noreturn]] void refuse_several(const std::filesystem::path& folder,
                                 std::span<const std::filesystem::path> runs) {
  constexpr std::size_t most_named = 12;
  std::string names;
  for (const auto& run : runs.first(std::min(runs.size(), most_named)))
    names += fmt::format("\n  {}", run.string());
  if (runs.size() > most_named) names += fmt::format("\n  and {} more", runs.size() - most_named);
  throw InputError(fmt::format("report: {} has {} runs; name those that you want to see:{}",
                               folder.string(), runs.size(), names));
}

RunRecord read_folder(const std::filesystem::path& folder) {
  const auto runs = runs_below(folder);
  if (runs.empty()) {
    throw InputError(
        fmt::format("report: no run in {}: looked for history.json, there and up to {} folders "
                    "below; TensorBoard shows event files",
                    folder.string(), deepest_run));
  }
  if (runs.size() > 1) refuse_several(folder, runs);
  RunRecord run = read_history(runs.front() / "history.json");
  run.name = name_of_folder(runs.front());
  read_pictures(runs.front(), run);
  return run;
}

// Reads a file that somebody has named.
RunRecord read_file(const std::filesystem::path& path) {
  try {
    return read_history(path);
  } catch (const Error&) {
    if (path.filename() == "history.json") throw;
    throw InputError(fmt::format(
        "report: {} is no history of a run; expected a run's folder, or its history.json",
        path.string()));
  }
}

}  // namespace

RunRecord read_run(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw InputError(
        fmt::format("report: no run at {}: {}; expected a run's folder, or its history.json",
                    path.string(), error ? error.message() : "there is nothing"));
  }
  RunRecord run;
  if (std::filesystem::is_directory(status)) {
    run = read_folder(path);
  } else {
    run = read_file(path);
    run.name = name_of_folder(std::filesystem::absolute(path).parent_path());
  }
  run.source = path;
  return run;
}

}  // namespace kolo
