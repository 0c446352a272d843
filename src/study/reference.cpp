#include "kolo/study/reference.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/observe/format.h"
#include "kolo/report/report.h"
#include "kolo/study/sweep.h"
#include "run/prepared_run.h"
#include "run/run_folder.h"
#include "study/shipped_file.h"
#include "study/study_folder.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

constexpr auto section = "reference";

// One message for all names that are wrong.
void require_known(const ReferenceRequest& request, const std::vector<std::string>& known) {
  if (known.empty())
    throw InputError(fmt::format(
        "reference: {} has no configuration with a section `reference`, which says what was "
        "published (docs/configuration.md)",
        request.file.string()));
  std::vector<std::string> unknown;
  for (const auto& name : request.names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const auto near = nearest(name, known);
    unknown.push_back(fmt::format(
        "{}{}", quote(name), near.empty() ? "" : fmt::format(" (did you mean {}?)", quote(near))));
  }
  if (!unknown.empty())
    throw InputError(
        fmt::format("reference: {} has no configuration {} with a section "
                    "`reference`; it has {}",
                    request.file.string(), join(unknown), join(known)));
}

ConfigSource source_of(const ReferenceRequest& request, const std::string& name) {
  return {.file = request.file, .name = name, .overrides = request.settings};
}

// Whether a file or folder of the data is not there; a data set that can do without says nothing of
// it when it is made.
bool lacks_data(const RunConfig& config) {
  const auto paths = input_paths();
  return std::ranges::any_of(settings_of(config), [&](const auto& setting) {
    const auto& [key, value] = setting;
    const bool is_data = key.starts_with("data.") && std::ranges::find(paths, key) != paths.end();
    std::error_code ignored;  // what can't be looked at is read, and then told of
    return is_data && !value.empty() && !fs::exists(value, ignored);
  });
}

// Why the data are not there; empty where they are.
std::string missing_data(const RunConfig& config, int ranks) {
  if (!lacks_data(config)) return {};
  try {
    (void)prepare_run(config, {}, {}, ranks);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

// The seeds of an entry are the values of a sweep.
SweepRequest sweep_of(const ReferenceRequest& request, const ReferenceEntry& entry) {
  SweepRequest sweep{.config = source_of(request, entry.name)};
  auto& words = sweep.config.overrides;
  // What was published is no part of the trainings: another number judges the same ones.
  std::erase_if(words, [](const std::string& word) {
    const auto key = key_and_value(word).first;
    return key == "seed" || key == section || key.starts_with(fmt::format("{}.", section));
  });
  std::string values;
  for (std::int64_t i = 0; i < entry.config.reference.seeds; ++i)
    values += fmt::format("{}{}", i > 0 ? "," : "",
                          checked_add(entry.config.seed, static_cast<std::uint64_t>(i)));
  words.push_back(fmt::format("seed={}", values));
  sweep.swept = {"seed"};
  for (const auto& key : parse_sweep_space(words, sweep.swept).keys)
    if (key.keys != sweep.swept)
      throw InputError(fmt::format(
          "reference: {}: only the seeds vary; give it one value, or try several with kolo sweep",
          key.text));
  sweep.places = {.ranks = request.ranks, .at_once = 1, .oversubscribe = request.oversubscribe};
  sweep.metric = name_of(entry.config.reference.metric);
  sweep.output = request.output / entry.name;
  sweep.program = request.program;
  sweep.say = [say = request.say, name = entry.name](const std::string& line) {
    say(fmt::format("{}: {}", name, line));
  };
  return sweep;
}

// The folder of all: reference.json, reference.csv and report.html, and the sweeps' folders.
struct ReferenceFolder {
  fs::path path;

  [[nodiscard]] fs::path file() const { return path / "reference.json"; }
  [[nodiscard]] fs::path table() const { return path / "reference.csv"; }
  [[nodiscard]] fs::path report() const { return path / "report.html"; }

  void require_own() const {
    RunFolder{path}.require_writable();
    const auto refuse = [&](std::string_view what) {
      throw InputError(
          fmt::format("reference: {} holds {}; choose another folder with --output "
                      "DIR, or move this one away",
                      path.string(), what));
    };
    if (RunFolder{path}.holds_a_run()) refuse("a run of kolo train");
    if (fs::exists(path / "sweep.json")) refuse("a sweep");
    if (fs::exists(file())) return;
    for (const auto& other : {table(), report()})
      if (fs::exists(other)) refuse(other.filename().string() + ", and no reference.json");
  }

  void write(const FinishedReferences& finished) const {
    fs::create_directories(path);
    write_file_atomically(file(), finished.to_json().dump(2) + "\n");
    write_file_atomically(table(), finished.to_csv());
  }

  void write_report(const FinishedReferences& finished) const {
    std::vector<fs::path> runs;
    std::set<double> targets;
    for (const auto& result : finished.results) {
      for (const auto& trial : result.seeds)
        if (const RunFolder run{path / result.name / trial.folder}; fs::exists(run.history()))
          runs.push_back(run.path);
      if (result.reference.metric == ReferenceMetric::val_accuracy)
        targets.insert(*result.reference.published);
    }
    if (runs.empty()) return;
    auto page = read_report(runs);
    page.title = "Reference results";
    page.targets.assign(targets.begin(), targets.end());
    const auto data = report_data(page, format_moment(wall_time()));
    write_file_atomically(report(), report_page(data));
  }
};

// An entry that has been found right.
struct PreparedEntry {
  ReferenceEntry entry;
  std::string missing;  // why the data are not there
  SweepRequest sweep;
  std::string plan;  // describe_sweep()
};

std::vector<PreparedEntry> prepare(const ReferenceRequest& request) {
  require_no_launcher("kolo reference");
  ReferenceFolder{request.output}.require_own();
  std::vector<PreparedEntry> all;
  for (auto& entry : reference_entries(request)) {
    auto& prepared = all.emplace_back();
    prepared.missing = missing_data(entry.config, request.ranks);
    prepared.sweep = sweep_of(request, entry);
    prepared.entry = std::move(entry);
  }
  const bool is_any_there =
      std::ranges::any_of(all, [](const auto& each) { return each.missing.empty(); });
  if (!is_any_there) throw InputError(fmt::format("reference: {}", all.front().missing));
  for (auto& each : all) {
    if (!each.missing.empty()) continue;
    try {
      each.plan = describe_sweep(each.sweep);
    } catch (const InputError& error) {
      throw InputError(fmt::format("reference: {}: {}", each.entry.name, error.what()));
    }
  }
  return all;
}

ReferenceResult skipped(const PreparedEntry& prepared) {
  ReferenceResult result{
      .name = prepared.entry.name, .reference = prepared.entry.config.reference, .seeds = {}};
  result.verdict = ReferenceVerdict::skipped;
  result.problem = prepared.missing;
  return result;
}

}  // namespace

fs::path reference_file() {
  const fs::path file = "configs/reference.yaml";
  if (fs::exists(file)) return file;
  if (auto found = find_beside_program(file); !found.empty()) return found;
  throw InputError(fmt::format(
      "reference: {} is neither here nor beside this program ({}); name a file with named "
      "configurations that have a section `reference`",
      file.string(), installed_file(file).string()));
}

std::vector<ReferenceEntry> reference_entries(const ReferenceRequest& request) {
  auto names = configurations_with(section, request.file);
  require_known(request, names);
  if (!request.names.empty())
    std::erase_if(names, [&](const std::string& name) {
      return std::ranges::find(request.names, name) == request.names.end();
    });
  std::vector<ReferenceEntry> entries;
  for (const auto& name : names) {
    auto config = load_run_config(source_of(request, name));
    if (!config.reference.published)
      refuse_setting(config, "reference.published",
                     "it is not given; an accuracy from 0 to 1, or a loss, is what this is held "
                     "against");
    if (request.seeds) config.reference.seeds = *request.seeds;
    entries.push_back({name, std::move(config)});
  }
  return entries;
}

std::string describe_references(const ReferenceRequest& request) {
  std::string text;
  for (const auto& each : prepare(request))
    text += fmt::format(
        "{}:{}", each.entry.name,
        each.missing.empty() ? "\n" + each.plan : fmt::format(" skipped: {}\n", each.missing));
  return text;
}

FinishedReferences run_references(const ReferenceRequest& request) {
  const auto all = prepare(request);
  const ReferenceFolder folder{request.output};
  FinishedReferences finished{.file = request.file, .folder = request.output, .results = {}};
  for (const auto& each : all) {
    const auto& name = each.entry.name;
    if (!each.missing.empty()) {
      request.say(fmt::format("{}: skipped: {}", name, each.missing));
      finished.results.push_back(skipped(each));
    } else {
      auto sweep = run_sweep(each.sweep);
      finished.was_stopped = sweep.was_stopped;
      if (finished.was_stopped) return finished;
      finished.results.push_back(
          judge_reference(name, each.entry.config.reference, std::move(sweep.sweep.trials)));
    }
    folder.write(finished);
  }
  folder.write_report(finished);
  return finished;
}

}  // namespace kolo
