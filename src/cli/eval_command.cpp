#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <optional>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/evaluation_text.h"
#include "cli/options.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/report/run_record.h"
#include "kolo/run/evaluate_run.h"
#include "kolo/tools/sample_pictures.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

struct EvalArguments {
  EvaluationRequest request;
  RankOptions ranks;
  bool json = false;
  std::string pictures;  // the folder; empty: none are drawn
};

constexpr std::int64_t drawn_samples = 12;

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

// Drawings of an earlier evaluation, which are replaced. InputError if kolo has not drawn a file
// with such a name.
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

// Draws into the folder, in place of an earlier evaluation's drawings, and returns what it has
// written: sample-N.png for sample N. An image, or of a network of fields a plane through the
// middle of each channel of the input, of the target, of the output, and of the difference.
// Captions say what the samples were taken for. Error: writing failed.
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

// Draws and prints a summary, on stderr beside --json.
void draw(const EvalArguments& arguments, const RunEvaluation& evaluation) {
  const auto files = draw_evaluation(evaluation, arguments.pictures);
  (arguments.json ? std::cerr : std::cout)
      << (files.empty()
              ? "\npictures: none: only images and fields of two or three dimensions are drawn\n"
              : fmt::format("\npictures: {} in {}; kolo report shows those in RUN/pictures\n",
                            files.size(), arguments.pictures));
}

int eval(const EvalArguments& arguments) {
  auto request = arguments.request;
  if (!arguments.pictures.empty()) {
    require_writable_folder("eval: --pictures", arguments.pictures);
    (void)earlier_pictures(arguments.pictures);
    request.samples = drawn_samples;
  }
  const auto& components = arguments.ranks.chosen->program.components;
  const auto check = [&] { return check_evaluation(request, components); };
  if (const auto status = start_ranks(arguments.ranks, check)) return *status;
  const auto show = [&](const RunEvaluation& evaluation) {
    if (arguments.json)
      std::cout << to_json(evaluation) << std::endl;
    else
      print_wrapped(to_text(evaluation));
    if (!arguments.pictures.empty()) draw(arguments, evaluation);
  };
  return evaluate_run(request, show, components);
}

}  // namespace

void add_eval_command(CLI::App& app, Chosen& chosen) {
  const auto [command, arguments] =
      add_command(app, chosen, "eval",
                  "Measure a trained network: accuracy of classes, errors of numbers", eval);
  add_text_option(*command, "path RUN|CHECKPOINT", arguments->request.path,
                  "a run's folder or one of its checkpoints",
                  "A run's folder, or one of its checkpoints");
  add_settings(*command, arguments->request.overrides,
               "key.sub=value: settings that replace the run's, for example data.path=FOLDER");
  add_rank_options(*command, arguments->ranks, chosen,
                   "Number of ranks to start; the results are the same for any");
  add_checkpoint_option(*command, arguments->request.checkpoint);
  add_choice_option(*command, "--data", arguments->request.split, {"validation", "training"},
                    "Data to measure on (default: validation)");
  command->add_flag("--json", arguments->json, "Print one JSON object, with the whole matrix");
  add_text_option(
      *command, "--pictures FOLDER", arguments->pictures, "a folder",
      fmt::format("Draw {} samples, evenly spread over the data, with what the network makes of "
                  "them, into this folder as PNG (kolo report shows those in RUN/pictures)",
                  drawn_samples));
  command->footer(
      "Examples:\n"
      "  kolo eval results/fashion_mnist\n"
      "  kolo eval results/fashion_mnist --pictures results/fashion_mnist/pictures\n"
      "  kolo eval results/fashion_mnist/checkpoints/step-00004690 -n 2 --json");
}

}  // namespace kolo
