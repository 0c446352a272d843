#include "cli/eval_pictures.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "cli/options.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/pictures/sample_pictures.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

std::string name_of_class(const RunEvaluation& evaluation, std::int64_t label) {
  const auto index = static_cast<std::size_t>(label);
  return index < evaluation.class_names.size() ? evaluation.class_names[index]
                                               : std::to_string(label);
}

std::vector<float> values_of(const torch::Tensor& tensor) {
  const auto dense = tensor.contiguous();
  const auto* const begin = dense.data_ptr<float>();
  return {begin, begin + dense.numel()};
}

// A channel's plane, of a field in three dimensions the one through its middle. Undefined of less
// than two dimensions.
torch::Tensor plane_of(const torch::Tensor& field, std::int64_t channel) {
  auto plane = field[channel];
  while (plane.dim() > 2) plane = plane[plane.size(0) / 2];
  return plane.dim() == 2 ? plane : torch::Tensor();
}

Panel panel_of(const torch::Tensor& plane, const std::string& caption, Panel::Scale scale) {
  return {.caption = caption,
          .scale = scale,
          .rows = plane.size(0),
          .columns = plane.size(1),
          .values = values_of(plane)};
}

// Images have been shifted and scaled for the network; here the darkest value is black, the
// brightest white.
Panel panel_of_image(const torch::Tensor& image) {
  const bool is_colour = image.size(0) == 3;
  auto panel = panel_of(image[0], {}, is_colour ? Panel::Scale::colour : Panel::Scale::grey);
  if (is_colour) panel.values = values_of(image);
  panel.low = image.min().item<double>();
  panel.high = image.max().item<double>();
  return panel;
}

std::string title_of(const RunEvaluation& evaluation) {
  return fmt::format("{}, epoch {}, {} data", evaluation.model, evaluation.epoch, evaluation.split);
}

std::vector<PanelSheet> sheets_of_classes(const RunEvaluation& evaluation) {
  constexpr int most_per_row = 6;
  PanelSheet sheet{.id = "predictions",
                   .title = title_of(evaluation),
                   .panels_per_row = most_per_row,
                   .panels = {}};
  for (const auto& sample : evaluation.samples) {
    if (sample.input.dim() != 3 || (sample.input.size(0) != 1 && sample.input.size(0) != 3))
      return {};
    auto panel = panel_of_image(sample.input);
    const auto taken_for = sample.output.argmax().item<std::int64_t>();
    const double share = sample.output[taken_for].item<double>();
    panel.stands_out = taken_for != sample.label;
    panel.caption =
        panel.stands_out
            ? fmt::format("{}, is {}", name_of_class(evaluation, taken_for),
                          name_of_class(evaluation, sample.label))
            : fmt::format("{} ({:.0f} %)", name_of_class(evaluation, taken_for), 100 * share);
    sheet.panels.push_back(std::move(panel));
  }
  if (sheet.panels.empty()) return {};
  return {sheet};
}

void add_row(PanelSheet& sheet, const std::vector<Panel>& row) {
  sheet.panels.insert(sheet.panels.end(), row.begin(), row.end());
  sheet.panels.resize((sheet.panels.size() + static_cast<std::size_t>(sheet.panels_per_row) - 1) /
                      static_cast<std::size_t>(sheet.panels_per_row) *
                      static_cast<std::size_t>(sheet.panels_per_row));
}

// Between the values below and above which 1 % of them are: single cells of a cosmological box are
// a thousand times as dense as the others.
void scale_to(const torch::Tensor& plane, Panel& panel) {
  const auto sorted = std::get<0>(plane.flatten().sort());
  const auto last = sorted.size(0) - 1;
  panel.low = sorted[last / 100].item<double>();
  panel.high = sorted[last - last / 100].item<double>();
}

// "input: density", or "input 0".
std::string caption_of(std::string_view what, const std::vector<std::string>& names,
                       std::int64_t channel) {
  const auto index = static_cast<std::size_t>(channel);
  return index < names.size() ? fmt::format("{}: {}", what, names[index])
                              : fmt::format("{} {}", what, channel);
}

std::vector<Panel> row_of_input(const RunEvaluation& evaluation, const torch::Tensor& input) {
  std::vector<Panel> row;
  for (std::int64_t channel = 0; channel < input.size(0); ++channel) {
    const auto plane = plane_of(input, channel);
    if (!plane.defined()) return {};
    row.push_back(
        panel_of(plane, caption_of("input", evaluation.input_names, channel), Panel::Scale::field));
    scale_to(plane, row.back());
  }
  return row;
}

// Target, output and difference of a channel, of which the first two have one scale.
std::array<Panel, 3> panels_of_channel(const RunEvaluation& evaluation, const SampleOutput& sample,
                                       std::int64_t channel) {
  const auto caption = [&](std::string_view what) {
    return caption_of(what, evaluation.target_names, channel);
  };
  const auto target = plane_of(sample.target, channel), output = plane_of(sample.output, channel);
  std::array panels{panel_of(target, caption("target"), Panel::Scale::field),
                    panel_of(output, caption("output"), Panel::Scale::field),
                    panel_of(output - target, caption("difference"), Panel::Scale::difference)};
  scale_to(target, panels[0]);
  panels[1].low = panels[0].low;
  panels[1].high = panels[0].high;
  const double most = panels[0].high - panels[0].low;
  panels[2].low = -most;
  panels[2].high = most;
  return panels;
}

std::optional<PanelSheet> sheet_of_fields(const RunEvaluation& evaluation,
                                          const SampleOutput& sample) {
  if (sample.target.dim() < 3 || sample.target.sizes() != sample.output.sizes())
    return std::nullopt;
  const auto channels = sample.target.size(0);
  const auto input = row_of_input(evaluation, sample.input);
  PanelSheet sheet{.id = fmt::format("fields-{}", sample.index),
                   .title = fmt::format("{}, sample {}", title_of(evaluation), sample.index),
                   .panels_per_row = static_cast<int>(
                       std::max<std::int64_t>(channels, static_cast<std::int64_t>(input.size()))),
                   .panels = {}};
  add_row(sheet, input);
  std::array<std::vector<Panel>, 3> rows;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const auto panels = panels_of_channel(evaluation, sample, channel);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(panels[i]);
  }
  for (const auto& row : rows) add_row(sheet, row);
  return sheet;
}

std::vector<PanelSheet> sheets_of(const RunEvaluation& evaluation) {
  if (evaluation.matrix) return sheets_of_classes(evaluation);
  std::vector<PanelSheet> sheets;
  for (const auto& sample : evaluation.samples)
    if (const auto sheet = sheet_of_fields(evaluation, sample)) sheets.push_back(*sheet);
  return sheets;
}

CountTable table_of(const RunEvaluation& evaluation) {
  const auto& matrix = *evaluation.matrix;
  CountTable table{.id = "confusion", .title = title_of(evaluation), .names = {}, .counts = {}};
  for (std::int64_t label = 0; label < matrix.classes(); ++label)
    table.names.push_back(name_of_class(evaluation, label));
  table.counts.assign(matrix.counts().begin(), matrix.counts().end());
  return table;
}

}  // namespace

void require_room_for_pictures(const fs::path& folder, FigureFormat format) {
  require_gnuplot();
  require_writable_folder("eval: --pictures", folder);
  for (const char* const id : {"predictions", "confusion"})
    require_replaceable(picture_file(folder, id, format));
}

std::vector<fs::path> draw_evaluation(const RunEvaluation& evaluation, const fs::path& folder,
                                      FigureFormat format) {
  std::vector<fs::path> files;
  const auto write = [&](const std::string& id, const std::string& picture) {
    const auto file = picture_file(folder, id, format);
    require_replaceable(file);
    write_file_atomically(file, picture);
    files.push_back(file);
  };
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error(
        fmt::format("eval: --pictures: cannot make {}: {}", folder.string(), error.message()));
  for (const auto& sheet : sheets_of(evaluation)) write(sheet.id, draw_panels(sheet, format));
  if (evaluation.matrix) {
    const auto table = table_of(evaluation);
    write(table.id, draw_table(table, format));
  }
  return files;
}

}  // namespace kolo
