#include "kolo/report/report.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "report/embedded_files.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

// The study.json or sweep.json that is meant by a path; empty when it names none.
fs::path file_of(const fs::path& path, std::string_view name) {
  std::error_code error;
  if (path.filename() == name) return path;
  const auto inside = path / name;
  return fs::is_regular_file(inside, error) ? inside : fs::path{};
}

template <typename T>
T read_whole(const fs::path& file) {
  try {
    return T::read(file);
  } catch (const Error& error) {
    throw InputError(fmt::format("report: {}", error.what()));
  }
}

// Name of one of a study's runs: "4 ranks", "4 ranks [2,2,1]" or, where a study has several
// combinations, "4 ranks, linear, no warm-up". Points that train alike, as those of one rank do,
// share a run.
std::string name_of(const Study& study, const StudyPoint& point) {
  const auto ranks = fmt::format("{} rank{}{}{}", point.ranks, point.ranks == 1 ? "" : "s",
                                 point.spatial.empty() ? "" : " ", cut_of(point));
  const auto is_other = [&](const StudyPoint& other) {
    return combination_name(other) != combination_name(point);
  };
  if (std::ranges::none_of(study.points, is_other)) return ranks;
  const bool is_shared = std::ranges::any_of(study.points, [&](const StudyPoint& other) {
    return other.folder == point.folder && is_other(other);
  });
  return fmt::format("{}, {}", ranks, is_shared ? "unscaled" : combination_name(point));
}

std::vector<RunRecord> read_runs_of(const Study& study, const fs::path& folder,
                                    std::vector<std::string>& warnings) {
  std::vector<RunRecord> runs;
  std::set<std::string> done;
  for (const auto& point : study.points) {
    if (point.folder.empty() || !done.insert(point.folder).second) continue;
    std::error_code error;
    if (!fs::exists(folder / point.folder / "history.json", error)) continue;
    try {
      auto run = read_run(folder / point.folder);
      run.name = name_of(study, point);
      runs.push_back(std::move(run));
    } catch (const Error& problem) {
      warnings.emplace_back(problem.what());
    }
  }
  return runs;
}

void read_sweep(const fs::path& file, Report& report) {
  if (report.sweep)
    throw InputError(fmt::format("report: {} is a second sweep; a page shows one", file.string()));
  report.sweep = read_whole<Sweep>(file);
  for (const auto& trial : report.sweep->trials) {
    RunRecord run;
    std::error_code error;
    const auto folder = file.parent_path() / trial.folder;
    try {
      if (fs::exists(folder / "history.json", error)) run = read_run(folder);
    } catch (const Error& problem) {
      report.warnings.emplace_back(problem.what());
    }
    run.name = fmt::format("trial {}: {}", trial.number, describe(trial));
    report.trials.push_back(std::move(run));
  }
}

void read_one(const fs::path& path, Report& report) {
  if (const auto sweep = file_of(path, "sweep.json"); !sweep.empty())
    return read_sweep(sweep, report);
  const auto file = file_of(path, "study.json");
  if (file.empty()) {
    report.runs.push_back(read_run(path));
    return;
  }
  if (report.study) {
    throw InputError(fmt::format(
        "report: {} is a second study; a page shows one study, and any number of runs beside it",
        path.string()));
  }
  report.study = read_whole<Study>(file);
  auto runs = read_runs_of(*report.study, file.parent_path(), report.warnings);
  report.study_runs = runs.size();
  report.runs.insert(report.runs.begin(), std::move_iterator(runs.begin()),
                     std::move_iterator(runs.end()));
}

std::string title_of(const Report& report) {
  if (report.study) return report.study->name.empty() ? "Scaling study" : report.study->name;
  if (report.sweep) return fmt::format("{}, a sweep", report.sweep->name);
  if (report.runs.size() == 1) return report.runs[0].name;
  return fmt::format("{} runs compared", report.runs.size());
}

}  // namespace

Report read_report(std::span<const fs::path> paths) {
  Report report;
  for (const auto& path : paths) read_one(path, report);
  make_names_distinct(report.runs);
  report.title = title_of(report);
  return report;
}

namespace {

std::string escaped_html(std::string_view text) {
  static constexpr std::pair<char, std::string_view> entities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string escaped;
  for (const char& letter : text) {
    const auto* const entity =
        std::ranges::find(entities, letter, &std::pair<char, std::string_view>::first);
    escaped += entity == std::end(entities) ? std::string_view(&letter, 1) : entity->second;
  }
  return escaped;
}

// JSON that can stand in a script element: nothing in it ends the element or begins a comment.
std::string escaped_json(const nlohmann::ordered_json& data) {
  // What is no UTF-8, as names of files can be, is replaced.
  const auto text = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string escaped;
  escaped.reserve(text.size());
  for (const char letter : text) {
    if (letter == '<')
      escaped += "\\u003c";
    else
      escaped += letter;
  }
  return escaped;
}

// Puts in what stands for {{name}}, in one pass: what is put in is not looked at again.
std::string filled_in(std::string_view page,
                      std::span<const std::pair<std::string_view, std::string_view>> parts) {
  std::string whole;
  while (true) {
    const auto begin = page.find("{{");
    whole += page.substr(0, begin);
    if (begin == std::string_view::npos) return whole;
    const auto end = page.find("}}", begin);
    const auto name = page.substr(begin + 2, end - begin - 2);
    for (const auto& [known, text] : parts) {
      if (known == name) whole += text;
    }
    page.remove_prefix(end + 2);
  }
}

}  // namespace

std::string report_page(const nlohmann::ordered_json& data) {
  const auto title = escaped_html(data.at("title").get<std::string>());
  const auto json = escaped_json(data);
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"title", title},      {"style", report_css}, {"data", json}, {"chart_library", chart_min_js},
      {"charts", charts_js}, {"script", report_js}};
  return filled_in(report_html, parts);
}

}  // namespace kolo
