#include "kolo/report/report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/report/results_table.h"
#include "report/embedded_files.h"

namespace kolo {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

// The study.json or sweep.json that a path names, itself or as its folder; empty: neither.
fs::path file_of(const fs::path& path, std::string_view name) {
  std::error_code error;
  if (path.filename() == name) return path;
  const auto inside = path / name;
  return fs::is_regular_file(inside, error) ? inside : fs::path{};
}

// Name of one of a study's runs: "4 ranks", "4 ranks [2,2,1]" or, where a study has several
// combinations, "4 ranks, linear, no warm-up". Points that train alike, as those of one rank do,
// share a run.
std::string name_of(const Study& study, const StudyPoint& point) {
  const auto ranks = fmt::format("{}{}{}", counted(point.ranks, "rank"),
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

// The run in a folder; nothing where none has begun, or it can't be read, which is a warning.
std::optional<RunRecord> run_in(const fs::path& folder, Report& report) {
  std::error_code error;
  if (!fs::exists(folder / "history.json", error)) return std::nullopt;
  try {
    return read_run(folder);
  } catch (const Error& problem) {
    report.warnings.emplace_back(problem.what());
    return std::nullopt;
  }
}

// The study's runs come before all others.
void read_runs_of(const Study& study, const fs::path& folder, Report& report) {
  std::vector<RunRecord> runs;
  std::map<std::string, std::optional<std::size_t>> places;  // by folder
  for (const auto& point : study.points) {
    const auto [known, is_new] = places.try_emplace(point.folder);
    if (is_new && !point.folder.empty()) {
      if (auto run = run_in(folder / point.folder, report)) {
        run->name = name_of(study, point);
        known->second = runs.size();
        runs.push_back(*std::move(run));
      }
    }
    report.runs_of_points.push_back(known->second);
  }
  report.study_runs = runs.size();
  report.runs.insert(report.runs.begin(), std::move_iterator(runs.begin()),
                     std::move_iterator(runs.end()));
}

void read_sweep(const fs::path& file, Report& report) {
  if (report.sweep)
    throw InputError(fmt::format("report: {} is a second sweep; a page shows one", file.string()));
  report.sweep = Sweep::read(file);
  for (const auto& trial : report.sweep->trials) {
    auto run = run_in(file.parent_path() / trial.folder, report).value_or(RunRecord());
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
  report.study = Study::read(file);
  read_runs_of(*report.study, file.parent_path(), report);
}

std::string title_of(const Report& report) {
  if (report.study) return report.study->name.empty() ? "Scaling study" : report.study->name;
  if (report.sweep) return fmt::format("{}, a sweep", report.sweep->name);
  if (report.runs.size() == 1) {
    const auto description = report.runs[0].setting("description");
    return description.empty() ? report.runs[0].name : description;
  }
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

// As short as possible: 3 rather than 3.0.
Json number(double value) {
  constexpr double most = 1e15;
  if (!std::isfinite(value)) return nullptr;
  if (value == std::trunc(value) && std::abs(value) < most) return static_cast<std::int64_t>(value);
  return value;
}

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

Json json_of(const ResultsTable& table) {
  Json json{{"title", table.title}, {"note", table.note}, {"folded", table.folded}};
  for (const auto& column : table.columns)
    json["columns"].push_back({{"title", column.title}, {"is_number", column.is_number}});
  for (const auto& row : table.rows) {
    Json cells = Json::array();
    for (const auto& cell : row.cells)
      cells.push_back({{"text", cell.text}, {"best", cell.is_best}});
    json["rows"].push_back(
        {{"cells", std::move(cells)}, {"run", row.run}, {"mark", name_of(row.mark)}});
  }
  return json;
}

// JSON of what depends on the axis: an object with a member for each.
template <typename Value, typename Write>
Json by_axis(const std::map<CurveAxis, Value>& values, Write write) {
  Json json = Json::object();
  for (const auto& [axis, value] : values) json[std::string(name_of(axis))] = write(value);
  return json;
}

Json json_of(const FigureSeries& series) {
  return {{"name", series.name},
          {"colour", series.colour},
          {"dashed", series.dashed},
          {"marks", series.marks},
          {"joined", series.joined},
          {"y", numbers(series.y)},
          {"spread", numbers(series.spread)},
          {"x", series.x_on.empty() ? numbers(series.x) : by_axis(series.x_on, numbers)}};
}

Json json_of(const Figure& figure) {
  const auto text = [](const std::string& label) { return label; };
  Json json{
      {"id", figure.id},
      {"title", figure.title},
      {"kind", figure.kind == Figure::Kind::lines ? "lines" : "stacked_bars"},
      {"x_label", figure.x_labels.empty() ? Json(figure.x_label) : by_axis(figure.x_labels, text)},
      {"y_label", figure.y_label},
      {"x_logarithmic", figure.x_logarithmic},
      {"y_logarithmic", figure.y_logarithmic},
      {"smoothed", figure.smoothed},
      {"categories", figure.categories},
      {"note", figure.note},
      {"series", Json::array()}};
  for (const auto& series : figure.series) json["series"].push_back(json_of(series));
  return json;
}

void add_figures(Json& sections, const std::vector<FigureGroup>& groups) {
  for (const auto& group : groups) {
    Json figures = Json::array();
    for (const auto& figure : group.figures) figures.push_back(json_of(figure));
    sections.push_back({{"title", group.title}, {"figures", std::move(figures)}});
  }
}

void add_table(Json& sections, const ResultsTable& table) {
  if (!table.rows.empty()) sections.push_back(json_of(table));
}

std::string summary_of(const Report& report, const std::string& generated) {
  std::string what;
  if (const auto& study = report.study)
    what = fmt::format("A study of {} on {}. ", study->configuration,
                       counted(std::ssize(study->points), "point"));
  if (const auto& sweep = report.sweep)
    what += fmt::format("A sweep of {}, {}. ", sweep->configuration,
                        counted(std::ssize(sweep->trials), "trial"));
  if (report.runs.size() > 1) what += fmt::format("{} runs. ", report.runs.size());
  if (report.runs.size() == 1)
    what +=
        fmt::format("The run {}, from {}. ", report.runs[0].name, report.runs[0].source.string());
  return what + fmt::format("Made {}.", generated);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t begin = 0; begin < bytes.size(); begin += 3) {
    const auto three = bytes.substr(begin, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < three.size() ? static_cast<unsigned char>(three[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= three.size() ? letters[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

void add_pictures(Json& sections, const std::vector<RunRecord>& runs) {
  for (const auto& run : runs) {
    if (run.pictures.empty()) continue;
    Json pictures = Json::array();
    for (const auto& picture : run.pictures)
      pictures.push_back({{"caption", picture.caption}, {"png", base64(picture.png)}});
    sections.push_back(
        {{"title", runs.size() == 1 ? "Predictions" : fmt::format("Predictions: {}", run.name)},
         {"pictures", std::move(pictures)}});
  }
}

Json json_of_origin(const RunRecord& run) {
  return {{"name", run.name}, {"facts", run.facts}, {"configuration", run.configuration}};
}

// How the runs were made; of a sweep its best trial, which stands for the others.
Json origins_of(const Report& report) {
  Json origins = Json::array();
  for (const auto& run : report.runs) origins.push_back(json_of_origin(run));
  if (report.sweep && !report.trials.empty()) {
    auto best = report.trials[best_first(*report.sweep).front()];
    if (!best.facts.empty()) best.facts.insert(best.facts.begin(), {"the best", best.name});
    origins.push_back(json_of_origin(best));
  }
  std::erase_if(origins.get_ref<Json::array_t&>(), [](const Json& origin) {
    return origin["facts"].empty() && origin["configuration"] == "";
  });
  return origins;
}

ResultsTable table_of_study(const Report& report) {
  auto table = study_results(*report.study);
  std::vector<const RunRecord*> of_rows;
  for (const auto& place : report.runs_of_points)
    of_rows.push_back(place ? &report.runs[*place] : nullptr);
  if (of_rows.size() == table.rows.size()) add_time_to_target(table, of_rows);
  return table;
}

ResultsTable table_of_sweep(const Report& report) {
  const auto& sweep = *report.sweep;
  auto table = sweep_results(sweep);
  std::vector<const RunRecord*> of_rows;
  for (const auto place : best_first(sweep)) of_rows.push_back(&report.trials.at(place));
  if (!of_rows.empty())
    add_time_to_target(table, of_rows, sweep.metric == "val_loss" ? "loss" : "accuracy",
                       sweep.target);
  return table;
}

}  // namespace

Json report_data(const Report& report, const std::string& generated) {
  const auto axes = known_axes(report.runs);
  const auto axis = axes.empty() ? CurveAxis::epoch : axes.front();
  Json data{{"title", report.title},         {"summary", summary_of(report, generated)},
            {"origins", origins_of(report)}, {"warnings", report.warnings},
            {"runs", Json::array()},         {"axes", Json::array()},
            {"axis", name_of(axis)},         {"sections", Json::array()}};
  for (const auto& run : report.runs) {
    data["runs"].push_back(run.name);
    for (const auto& warning : run.warnings)
      data["warnings"].push_back(fmt::format("{}: {}", run.name, warning));
  }
  for (const CurveAxis each : axes) data["axes"].push_back(name_of(each));
  // A study's figures come first, then tables, then a sweep's figures, then curves.
  auto& sections = data["sections"];
  if (report.study) add_figures(sections, study_figures(*report.study));
  if (report.study) add_table(sections, table_of_study(report));
  if (report.sweep) add_table(sections, seed_results(*report.sweep));
  if (report.sweep) add_table(sections, table_of_sweep(report));
  if (report.runs.size() > report.study_runs) {
    add_table(sections, run_results(report.runs));
    add_table(sections, differing_settings(report.runs));
  }
  if (report.sweep) add_figures(sections, sweep_figures(*report.sweep, report.trials));
  add_figures(sections, run_figures(report.runs));
  add_pictures(sections, report.runs);
  return data;
}

namespace {

using Replacements = std::map<char, std::string_view>;

std::string with_replaced(std::string_view text, const Replacements& replacements) {
  std::string replaced;
  replaced.reserve(text.size());
  for (const char& letter : text) {
    const auto found = replacements.find(letter);
    replaced += found == replacements.end() ? std::string_view(&letter, 1) : found->second;
  }
  return replaced;
}

// Replaces each {{name}} of the page in one pass, so that braces in the texts stay as they are.
std::string filled_in(std::string_view page,
                      const std::map<std::string_view, std::string_view>& parts) {
  std::string whole;
  while (true) {
    const auto begin = page.find("{{");
    whole += page.substr(0, begin);
    if (begin == std::string_view::npos) return whole;
    const auto end = page.find("}}", begin);
    whole += parts.at(page.substr(begin + 2, end - begin - 2));
    page.remove_prefix(end + 2);
  }
}

}  // namespace

std::string report_page(const Json& data) {
  const auto title = with_replaced(
      data.at("title").get<std::string>(),
      {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}});
  // Nothing in JSON may end its script element or begin a comment. Names of files need not be
  // UTF-8: other bytes are replaced.
  const auto json =
      with_replaced(data.dump(-1, ' ', false, Json::error_handler_t::replace), {{'<', "\\u003c"}});
  return filled_in(report_html, {{"title", title},
                                 {"style", report_css},
                                 {"data", json},
                                 {"chart_library", chart_min_js},
                                 {"charts", charts_js},
                                 {"script", report_js}});
}

}  // namespace kolo
