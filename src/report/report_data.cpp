#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "kolo/report/figure.h"
#include "kolo/report/report.h"

namespace kolo {

namespace {

using Json = nlohmann::ordered_json;

// As short as possible: 3 rather than 3.0.
Json whole_or_not(double value) {
  constexpr double most = 1e15;
  if (value == std::trunc(value) && std::abs(value) < most) return static_cast<std::int64_t>(value);
  return value;
}

Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return whole_or_not(value);
}

Json time_stamp(double seconds) {
  if (!std::isfinite(seconds)) return nullptr;
  return whole_or_not(std::round(100 * seconds) / 100);
}

Json numbers(const std::vector<double>& values, bool are_times = false) {
  Json list = Json::array();
  for (const double value : values) list.push_back(are_times ? time_stamp(value) : number(value));
  return list;
}

Json json_of(const ResultsTable& table) {
  Json json{{"title", table.title}, {"note", table.note}};
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

Json json_of(const FigureSeries& series, bool x_is_time) {
  return {{"name", series.name},
          {"colour", series.colour},
          {"dashed", series.dashed},
          {"marks", series.marks},
          {"y", numbers(series.y)},
          {"spread", numbers(series.spread)},
          {"x", numbers(series.x, x_is_time)}};
}

Json json_of(const Figure& figure) {
  Json json{{"id", figure.id},
            {"title", figure.title},
            {"kind", figure.kind == Figure::Kind::lines ? "lines" : "stacked_bars"},
            {"x_label", figure.x_label},
            {"y_label", figure.y_label},
            {"x_logarithmic", figure.x_logarithmic},
            {"y_logarithmic", figure.y_logarithmic},
            {"categories", figure.categories},
            {"note", figure.note},
            {"series", Json::array()}};
  for (const auto& series : figure.series)
    json["series"].push_back(json_of(series, figure.x_is_time));
  return json;
}

Json json_of(const std::vector<FigureGroup>& groups) {
  Json json = Json::array();
  for (const auto& group : groups) {
    Json figures = Json::array();
    for (const auto& figure : group.figures) figures.push_back(json_of(figure));
    json.push_back({{"title", group.title}, {"figures", std::move(figures)}});
  }
  return json;
}

// Of a figure whose x depends on the axis: x_label and each series' x become objects with a member
// for each axis. `figure` was made for `axis`; `json` starts as the figure for any axis.
void add_axis(Json& json, const Figure& figure, CurveAxis axis) {
  const std::string name(name_of(axis));
  if (!json["x_label"].is_object()) {
    json["x_label"] = Json::object();
    for (auto& series : json["series"]) series["x"] = Json::object();
  }
  json["x_label"][name] = figure.x_label;
  for (std::size_t i = 0; i < figure.series.size(); ++i)
    json["series"][i]["x"][name] = numbers(figure.series[i].x, figure.x_is_time);
}

// The runs' figures, with the places of their points on all axes.
Json run_figures_on(const Report& report, const std::vector<CurveAxis>& axes) {
  std::vector<std::vector<FigureGroup>> made;
  for (const CurveAxis axis : axes)
    made.push_back(run_figures(report.runs, {axis, report.targets}));
  if (made.empty()) return Json::array();
  Json json = json_of(made.front());
  for (std::size_t group = 0; group < made.front().size(); ++group) {
    for (std::size_t number = 0; number < made.front()[group].figures.size(); ++number) {
      const auto figure = [&](std::size_t axis) -> const Figure& {
        return made[axis][group].figures[number];
      };
      const bool depends = std::ranges::any_of(made, [&](const auto& groups) {
        return groups[group].figures[number].x_label != figure(0).x_label;
      });
      for (std::size_t axis = 0; depends && axis < axes.size(); ++axis)
        add_axis(json[group]["figures"][number], figure(axis), axes[axis]);
    }
  }
  return json;
}

void append(Json& list, Json&& others) {
  for (auto& other : others) list.push_back(std::move(other));
}

Json palette_of(std::string_view PaletteColour::*theme) {
  Json runs = Json::array(), others = Json::array();
  for (const auto& colour : run_palette) runs.push_back(colour.*theme);
  for (const auto& colour : other_palette) others.push_back(colour.*theme);
  return {{"runs", std::move(runs)}, {"others", std::move(others)}};
}

std::string summary_of(const Report& report, const std::string& generated) {
  std::string what;
  if (report.study) {
    const auto points = report.study->points.size();
    what = fmt::format("A study of {} on {} point{}. ", report.study->configuration, points,
                       points == 1 ? "" : "s");
  }
  if (report.sweep) {
    const auto trials = report.sweep->trials.size();
    what += fmt::format("A sweep of {}, {} trial{}. ", report.sweep->configuration, trials,
                        trials == 1 ? "" : "s");
  }
  if (report.runs.size() > 1) what += fmt::format("{} runs. ", report.runs.size());
  if (report.runs.size() == 1) what += fmt::format("From {}. ", report.runs[0].source.string());
  return what + fmt::format("Made {}.", generated);
}

CurveAxis first_axis(const Report& report) {
  const auto axes = known_axes(report.runs);
  return axes.empty() ? CurveAxis::epoch : axes.front();
}

}  // namespace

std::vector<FigureGroup> report_figures(const Report& report) {
  std::vector<FigureGroup> groups;
  if (report.study) groups = study_figures(*report.study);
  if (report.sweep)
    for (auto& group : sweep_figures(*report.sweep, report.trials))
      groups.push_back(std::move(group));
  for (auto& group : run_figures(report.runs, {first_axis(report), report.targets}))
    groups.push_back(std::move(group));
  return groups;
}

std::vector<ResultsTable> report_tables(const Report& report) {
  std::vector<ResultsTable> tables;
  const auto add = [&](ResultsTable table) {
    if (!table.rows.empty()) tables.push_back(std::move(table));
  };
  if (report.study) add(study_results(*report.study));
  if (report.sweep) add(sweep_results(*report.sweep));
  if (report.runs.size() > report.study_runs) {
    add(run_results(report.runs));
    add(differing_settings(report.runs));
  }
  return tables;
}

std::vector<std::string> report_warnings(const Report& report) {
  auto warnings = report.warnings;
  for (const auto& run : report.runs) {
    for (const auto& warning : run.warnings)
      warnings.push_back(fmt::format("{}: {}", run.name, warning));
  }
  return warnings;
}

namespace {

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

// Of each run that has some.
Json picture_sections(const std::vector<RunRecord>& runs) {
  Json sections = Json::array();
  for (const auto& run : runs) {
    if (run.pictures.empty()) continue;
    Json pictures = Json::array();
    for (const auto& picture : run.pictures)
      pictures.push_back({{"caption", picture.caption}, {"png", base64(picture.png)}});
    sections.push_back(
        {{"title", runs.size() == 1 ? "Predictions" : fmt::format("Predictions: {}", run.name)},
         {"pictures", std::move(pictures)}});
  }
  return sections;
}

}  // namespace

Json report_data(const Report& report, const std::string& generated) {
  const auto axes = known_axes(report.runs);
  Json data{
      {"title", report.title},
      {"summary", summary_of(report, generated)},
      {"warnings", report_warnings(report)},
      {"palette",
       {{"light", palette_of(&PaletteColour::light)}, {"dark", palette_of(&PaletteColour::dark)}}},
      {"runs", Json::array()},
      {"axes", Json::array()},
      {"axis", name_of(first_axis(report))},
      {"sections", Json::array()}};
  for (const auto& run : report.runs) data["runs"].push_back(run.name);
  for (const CurveAxis axis : axes) data["axes"].push_back(name_of(axis));
  // A study's figures come first, then tables, then a sweep's figures, then curves.
  if (report.study) append(data["sections"], json_of(study_figures(*report.study)));
  for (const auto& table : report_tables(report)) data["sections"].push_back(json_of(table));
  if (report.sweep) append(data["sections"], json_of(sweep_figures(*report.sweep, report.trials)));
  append(data["sections"], run_figures_on(report, axes));
  append(data["sections"], picture_sections(report.runs));
  return data;
}

}  // namespace kolo
