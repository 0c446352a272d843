#include "cli/evaluation_output.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/report/run_record.h"
#include "kolo/run/evaluate_run.h"
#include "kolo/tools/sample_pictures.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

// Width of a column of names below a heading.
std::size_t width_of(std::string_view heading, const std::vector<std::string>& names) {
  auto width = heading.size();
  for (const auto& name : names) width = std::max(width, display_width(name));
  return width;
}

std::span<const std::int64_t> row_of(const ConfusionMatrix& matrix, std::int64_t target) {
  const auto classes = static_cast<std::size_t>(matrix.classes());
  return matrix.counts().subspan(static_cast<std::size_t>(target) * classes, classes);
}

std::int64_t sum_of(std::span<const std::int64_t> row) {
  return std::reduce(row.begin(), row.end());
}

// Class that samples of `target` are most often mistaken for; "-" if none.
std::string usual_mistake(const RunEvaluation& report, std::int64_t target) {
  const auto row = row_of(*report.matrix, target);
  std::vector<std::int64_t> mistakes(row.begin(), row.end());
  mistakes[static_cast<std::size_t>(target)] = 0;
  const auto worst = std::ranges::max_element(mistakes);
  if (*worst == 0) return "-";
  const double share = static_cast<double>(*worst) / static_cast<double>(sum_of(row));
  return fmt::format("{} ({:.2f} %)", report.class_name(worst - mistakes.begin()), 100 * share);
}

// Names of the classes, behind their numbers where they don't begin with these.
std::vector<std::string> numbered_names(const RunEvaluation& report) {
  std::vector<std::string> names;
  for (std::int64_t label = 0; label < report.matrix->classes(); ++label) {
    const auto number = fmt::to_string(label), name = report.class_name(label);
    names.push_back(name.starts_with(number) ? name : number + " " + name);
  }
  return names;
}

std::string table_of_classes(const RunEvaluation& report) {
  const auto names = numbered_names(report);
  const auto width = width_of("class", names);
  std::string text = fmt::format("\n{:<{}}  {:>8}  {:>9}  {}\n", "class", width, "samples",
                                 "accuracy", "mistaken for");
  const auto accuracies = report.matrix->accuracy_by_class();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto label = static_cast<std::int64_t>(i);
    text += fmt::format(
        "{:<{}}  {:>8}  {:>9}  {}\n", names[i], width,
        format_count(sum_of(row_of(*report.matrix, label))),
        std::isfinite(accuracies[i]) ? fmt::format("{:.2f} %", 100 * accuracies[i]) : "-",
        usual_mistake(report, label));
  }
  return text;
}

std::string table_of_counts(const RunEvaluation& report) {
  constexpr std::size_t widest_column = 7, screen = 80;
  const auto names = numbered_names(report);
  const auto width = width_of("", names);
  const auto left = screen - std::min(screen, width);
  const auto column = std::min(widest_column, left / names.size());
  const auto largest = std::ranges::max(report.matrix->counts());
  if (column <= fmt::formatted_size("{}", largest)) {
    return fmt::format("\nThe confusion matrix of {} classes is in --json.\n", names.size());
  }
  std::string text =
      "\nConfusion matrix: a row is what a sample is, a column what it was taken for\n";
  text += std::string(width, ' ');
  for (std::size_t label = 0; label < names.size(); ++label)
    text += fmt::format("{:>{}}", label, column);
  text += "\n";
  for (std::size_t target = 0; target < names.size(); ++target) {
    text += fmt::format("{:<{}}", names[target], width);
    for (const auto count : row_of(*report.matrix, static_cast<std::int64_t>(target)))
      text += fmt::format("{:>{}}", count, column);
    text += "\n";
  }
  return text;
}

// "-" where there is nothing to explain.
std::string text_of_r_squared(const ErrorSums& sums) {
  return sums.variation == 0 ? "-" : fmt::format("{:.5g}", sums.r_squared());
}

std::string text_of_errors(const RunEvaluation& report) {
  const auto all = report.errors_of_all();
  auto text =
      fmt::format("MAE       {:.5g}\nRMSE      {:.5g}\nR2        {}\n", all.mean_absolute_error(),
                  all.root_mean_squared_error(), text_of_r_squared(all));
  if (report.errors.size() > 1) {
    std::vector<std::string> names;
    for (const auto& target : report.errors) names.push_back(target.name);
    const auto width = width_of("target", names);
    text += fmt::format("\n{:<{}}  {:>11}  {:>11}  {:>11}\n", "target", width, "MAE", "RMSE", "R2");
    for (const auto& [name, numbers, sums] : report.errors) {
      text += fmt::format("{:<{}}  {:>11.5g}  {:>11.5g}  {:>11}\n", name, width,
                          sums.mean_absolute_error(), sums.root_mean_squared_error(),
                          text_of_r_squared(sums));
    }
  }
  const auto is_constant = [](const TargetErrors& target) { return target.sums.variation == 0; };
  if (std::ranges::any_of(report.errors, is_constant))
    text += "\nR2 is - where all targets are equal: there is no variation to explain.\n";
  return text;
}

// JSON has null for what is not finite.
void add_errors(nlohmann::ordered_json& json, const ErrorSums& sums) {
  json["mae"] = sums.mean_absolute_error();
  json["rmse"] = sums.root_mean_squared_error();
  json["r2"] = sums.r_squared();
}

void add_classes(nlohmann::ordered_json& json, const RunEvaluation& report) {
  json["accuracy"] = report.sums.accuracy();
  if (report.top > 0) json[fmt::format("top_{}_accuracy", report.top)] = report.sums.top_accuracy();
  json["classes"] = nlohmann::ordered_json::array();
  json["confusion_matrix"] = nlohmann::ordered_json::array();
  const auto accuracies = report.matrix->accuracy_by_class();
  for (std::int64_t label = 0; label < report.matrix->classes(); ++label) {
    const auto row = row_of(*report.matrix, label);
    json["classes"].push_back({{"name", report.class_name(label)},
                               {"samples", sum_of(row)},
                               {"accuracy", accuracies[static_cast<std::size_t>(label)]}});
    json["confusion_matrix"].push_back(std::vector<std::int64_t>(row.begin(), row.end()));
  }
}

}  // namespace

std::string to_text(const RunEvaluation& report) {
  const auto& sums = report.sums;
  auto text = fmt::format("{}, {} (epoch {}, step {})\n{} data, {} samples, {}\n\n", report.model,
                          report.checkpoint, report.epoch, report.step, report.split,
                          format_count(std::llround(sums.samples)), counted(report.ranks, "rank"));
  if (!report.matrix) {
    text += fmt::format("loss      {}\n", format_loss(sums.mean_loss()));
    return report.errors.empty() ? text : text + text_of_errors(report);
  }
  text += fmt::format("loss      {:.5f}\naccuracy  {:.2f} %\n", sums.mean_loss(),
                      100 * sums.accuracy());
  if (report.top > 0)
    text += fmt::format("top {:<4}  {:.2f} %\n", report.top, 100 * sums.top_accuracy());
  return text + table_of_classes(report) + table_of_counts(report);
}

std::string to_json(const RunEvaluation& report) {
  const auto& sums = report.sums;
  nlohmann::ordered_json json{{"model", report.model},   {"checkpoint", report.checkpoint},
                              {"epoch", report.epoch},   {"step", report.step},
                              {"data", report.split},    {"samples", std::llround(sums.samples)},
                              {"n_ranks", report.ranks}, {"loss", sums.mean_loss()}};
  if (report.matrix)
    add_classes(json, report);
  else if (!report.errors.empty())
    add_errors(json, report.errors_of_all());
  for (const auto& target : report.errors)  // none with a matrix
    add_errors(json["targets"].emplace_back(nlohmann::ordered_json{{"name", target.name}}),
               target.sums);
  // A folder's name may hold any bytes.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

namespace {

// Plane of a channel, through the middle of a 3-D field; nothing for fields of less than two
// dimensions.
std::optional<Panel> plane_of(const SampleNumbers& field, std::int64_t channel,
                              Panel::Scale scale) {
  if (field.shape.size() < 3) return std::nullopt;
  const auto rows = field.shape[field.shape.size() - 2], columns = field.shape.back();
  auto plane = channel;
  for (std::size_t axis = 1; axis + 2 < field.shape.size(); ++axis)
    plane = plane * field.shape[axis] + field.shape[axis] / 2;
  const auto begin = field.values.begin() + plane * rows * columns;
  return Panel{
      .scale = scale, .rows = rows, .columns = columns, .values = {begin, begin + rows * columns}};
}

// Draws the smallest value black and the largest white, since the network's images are normalized.
Panel panel_of_image(const SampleNumbers& image) {
  const auto scale = image.shape[0] == 3 ? Panel::Scale::colour : Panel::Scale::grey;
  const auto [low, high] = std::ranges::minmax(image.values);
  return {.scale = scale,
          .rows = image.shape[1],
          .columns = image.shape[2],
          .values = image.values,
          .low = low,
          .high = high};
}

std::optional<SamplePicture> picture_of_class(const RunEvaluation& evaluation,
                                              const SampleOutput& sample) {
  const auto& shape = sample.input.shape;
  if (shape.size() != 3 || (shape[0] != 1 && shape[0] != 3)) return std::nullopt;
  const auto largest = std::ranges::max_element(sample.output.values);
  const auto taken_for = largest - sample.output.values.begin();
  const auto name = evaluation.class_name(taken_for);
  SamplePicture picture{.is_mistake = taken_for != sample.label,
                        .panels = {panel_of_image(sample.input)}};
  picture.caption = picture.is_mistake
                        ? fmt::format("{}, is {}", name, evaluation.class_name(sample.label))
                        : fmt::format("{} ({:.0f} %)", name, 100. * *largest);
  return picture;
}

// Adds a row of panels, padded with gaps.
void add_row(SamplePicture& picture, const std::vector<Panel>& row) {
  const auto end = picture.panels.size() + static_cast<std::size_t>(picture.panels_per_row);
  picture.panels.insert(picture.panels.end(), row.begin(), row.end());
  if (!row.empty()) picture.panels.resize(end);
}

// Scales to the range without the lowest and highest 1 %: single cells of a cosmological box are a
// thousand times as dense as the others.
void scale_to_most(Panel& panel) {
  auto sorted = panel.values;
  std::ranges::sort(sorted, [](float one, float other) {  // not a number is the largest
    return one < other || (std::isnan(other) && !std::isnan(one));
  });
  const auto last = sorted.size() - 1;
  panel.low = sorted[last / 100];
  panel.high = sorted[last - last / 100];
}

// "density, temperature", or "channels 0 to 1".
std::string channels_of(const std::vector<std::string>& names, std::int64_t channels) {
  if (std::cmp_equal(names.size(), channels)) return join(names);
  return channels == 1 ? "channel 0" : fmt::format("channels 0 to {}", channels - 1);
}

std::vector<Panel> row_of_input(const SampleNumbers& input) {
  std::vector<Panel> row;
  for (std::int64_t channel = 0; channel < input.shape[0]; ++channel) {
    auto plane = plane_of(input, channel, Panel::Scale::field);
    if (!plane) return {};
    scale_to_most(*plane);
    row.push_back(*std::move(plane));
  }
  return row;
}

// Target, output and difference of a channel; target and output share a scale.
std::array<Panel, 3> panels_of_channel(const SampleOutput& sample, std::int64_t channel) {
  std::array panels{plane_of(sample.target, channel, Panel::Scale::field).value(),
                    plane_of(sample.output, channel, Panel::Scale::field).value(),
                    plane_of(sample.output, channel, Panel::Scale::difference).value()};
  for (std::size_t i = 0; i < panels[2].values.size(); ++i)
    panels[2].values[i] -= panels[0].values[i];
  scale_to_most(panels[0]);
  panels[1].low = panels[0].low;
  panels[1].high = panels[0].high;
  const double most = panels[0].high - panels[0].low;
  panels[2].low = -most;
  panels[2].high = most;
  return panels;
}

std::optional<SamplePicture> picture_of_fields(const RunEvaluation& evaluation,
                                               const SampleOutput& sample) {
  if (sample.target.shape.size() < 3 || sample.target.shape != sample.output.shape)
    return std::nullopt;
  const auto channels = sample.target.shape[0];
  const auto input = row_of_input(sample.input);
  SamplePicture picture;
  picture.panels_per_row =
      static_cast<int>(std::max<std::int64_t>(channels, static_cast<std::int64_t>(input.size())));
  add_row(picture, input);
  std::array<std::vector<Panel>, 3> rows;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const auto panels = panels_of_channel(sample, channel);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(panels[i]);
  }
  for (const auto& row : rows) add_row(picture, row);
  picture.caption = fmt::format("Sample {}. Rows: ", sample.index);
  if (!input.empty())
    picture.caption +=
        fmt::format("input ({}), ", channels_of(evaluation.input_names, sample.input.shape[0]));
  picture.caption += fmt::format("target, output, difference ({})",
                                 channels_of(evaluation.target_names, channels));
  return picture;
}

}  // namespace

std::vector<fs::path> earlier_pictures(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with("sample-") || !name.ends_with(".png")) continue;
    if (!is_drawing(entry.path()))
      throw InputError(
          fmt::format("eval: --pictures: {} is there and was not drawn by kolo; it would be lost: "
                      "choose another folder, or remove it",
                      entry.path().string()));
    files.push_back(entry.path());
  }
  return files;
}

std::vector<fs::path> draw_evaluation(const RunEvaluation& evaluation, const fs::path& folder) {
  std::error_code error;
  const bool is_new = fs::create_directories(folder, error);
  if (error)
    throw Error(
        fmt::format("eval: --pictures: cannot make {}: {}", folder.string(), error.message()));
  for (const auto& file : earlier_pictures(folder)) fs::remove(file);
  std::vector<fs::path> files;
  for (const auto& sample : evaluation.samples) {
    const auto picture = evaluation.matrix ? picture_of_class(evaluation, sample)
                                           : picture_of_fields(evaluation, sample);
    if (!picture) continue;
    files.push_back(folder / fmt::format("sample-{:06}.png", sample.index));
    write_file_atomically(files.back(), draw_picture(*picture));
  }
  if (files.empty() && is_new) fs::remove(folder, error);
  return files;
}

}  // namespace kolo
