#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/clock.h"
#include "kolo/base/text.h"
#include "kolo/report/results_table.h"
#include "kolo/run/predict_run.h"
#include "kolo/train/observe/format.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

struct PredictArguments {
  PredictionRequest request;
  RankOptions ranks;
};

std::string plural(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", format_count(count), what, count == 1 ? "" : "s");
}

// Most probable class, and two more with theirs: {"cat", "91.20 %", "dog 7.00 %, cow 1.10 %"}.
std::vector<ResultsTable::Cell> cells_of_classes(const std::vector<float>& probabilities,
                                                 const std::vector<std::string>& names) {
  std::vector<std::size_t> order(names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto shown = std::min<std::size_t>(3, order.size());
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(shown),
                            std::greater(), [&](std::size_t i) { return probabilities[i]; });
  const auto percent = [&](std::size_t i) {
    return fmt::format("{:.2f} %", 100 * probabilities[order[i]]);
  };
  std::vector<std::string> others;
  for (std::size_t i = 1; i < shown; ++i) others.push_back(names[order[i]] + " " + percent(i));
  return {{names[order[0]]}, {percent(0)}, {join(others)}};
}

std::string table_of(const PredictedSamples& samples) {
  ResultsTable table{.title = {}, .columns = {{samples.has_files ? "file" : "sample"}}};
  if (samples.has_classes) {
    table.columns.insert(table.columns.end(), {{"class"}, {"probability", true}, {"next"}});
  } else {
    for (const auto& column : samples.columns) table.columns.push_back({column, true});
  }
  for (const auto& [name, values] : samples.first) {
    auto& cells = table.rows.emplace_back(ResultsTable::Row{{{name}}}).cells;
    if (samples.has_classes) {
      for (auto& cell : cells_of_classes(values, samples.columns)) cells.push_back(cell);
    } else {
      for (const float value : values) cells.push_back({fmt::format("{:.6g}", value)});
    }
  }
  const auto more = samples.samples - std::ssize(samples.first);
  if (more > 0) table.note = fmt::format("... {} more; -o FILE.csv writes all", format_count(more));
  return to_text(table);
}

std::string to_text(const PredictedSamples& samples, const RunPrediction& prediction) {
  if (prediction.output.empty()) return "\n" + table_of(samples);
  return fmt::format("{}: {} of {}\n\n", prediction.output,
                     samples.has_classes ? "classes" : "numbers",
                     plural(samples.samples, samples.has_files ? "image" : "sample"));
}

std::string to_text(const PredictedBox& box, const RunPrediction& prediction) {
  const auto& tile = box.largest_tile;
  return fmt::format("{}: gas of {}^3 cells, {}\n\ntiles        {} of {} x {} x {} cells at most\n",
                     prediction.output, box.size,
                     format_bytes(static_cast<std::uint64_t>(box.bytes)), format_count(box.tiles),
                     tile[0], tile[1], tile[2]);
}

// "4 463 780 cells"
std::string per_second(const PredictedBox& box, double seconds) {
  return format_rate(std::pow(static_cast<double>(box.size), 3) / seconds) + " cells/s";
}
std::string per_second(const PredictedSamples& samples, double seconds) {
  return format_rate(static_cast<double>(samples.samples) / seconds) +
         (samples.has_files ? " images/s" : " samples/s");
}

std::string to_text(const RunPrediction& prediction) {
  auto text = fmt::format("{}, {} (epoch {}, step {})\n", prediction.model, prediction.checkpoint,
                          prediction.epoch, prediction.step);
  std::visit([&](const auto& what) { text += to_text(what, prediction); }, prediction.what);
  if (prediction.output.empty()) return text;
  const auto speed = std::visit(
      [&](const auto& what) { return per_second(what, prediction.seconds); }, prediction.what);
  return text + fmt::format("time         {}, {}, {}\npeak memory  {}\n",
                            format_duration(prediction.seconds), speed,
                            plural(prediction.ranks, "rank"), format_bytes(prediction.peak_memory));
}

void print(const RunPrediction& prediction) {
  if (const auto* const samples = std::get_if<PredictedSamples>(&prediction.what))
    for (const auto& warning : samples->warnings) complain(warning);
  print_wrapped(to_text(prediction));
}

int predict(const PredictArguments& arguments) {
  const auto& components = arguments.ranks.chosen->program.components;
  const auto check = [&] { return check_prediction(arguments.request, components); };
  if (const auto status = start_ranks(arguments.ranks, check)) return *status;
  return predict_run(arguments.request, print, components);
}

}  // namespace

void add_predict_command(CLI::App& app, Chosen& chosen) {
  constexpr std::int64_t most_cells = 1 << 20;
  const auto [command, arguments] =
      add_command(app, chosen, "predict",
                  "Apply a trained network to images, arrays or a simulation box", predict);
  auto& request = arguments->request;
  add_text_option(*command, "path RUN|CHECKPOINT", request.run,
                  "a run's folder or one of its checkpoints",
                  "A run's folder, or one of its checkpoints");
  add_text_option(*command, "input INPUT", request.input, "what to predict from",
                  "What to predict from, of the kind that the run was trained on: an image (JPEG, "
                  "PNG) or a folder of them; arrays (a .npy file, a folder of them, or HDF5); a "
                  "simulation box with dark matter");
  add_settings(*command, request.overrides,
               "key.sub=value: settings that replace the run's, for example device.kind=cpu");
  add_text_option(*command, "-o,--output FILE", request.output, "a file's name",
                  "File for the predictions, by its ending: .csv, .json, .npy, .h5 (HDF5); a box "
                  "needs .npy or .h5 (default: print those of the first 40 samples)");
  add_number_option(
      *command, "--tile CELLS", request.tile, {1, most_cells},
      "Cells per edge of a box to predict at a time, without the margin that is read around "
      "them (default: as many as fit in memory)");
  command->add_flag("--force", request.replaces, "Replace an existing output");
  add_rank_options(*command, arguments->ranks, chosen,
                   "Number of ranks to start; they share the samples, or a box's tiles");
  add_checkpoint_option(*command, request.checkpoint);
  command->footer(
      "Examples:\n"
      "  kolo predict results/pictures photo.jpg\n"
      "  kolo predict results/pictures photos -o classes.csv -n 2\n"
      "  kolo predict results/regression data/new.npy -o predicted.npy\n"
      "  kolo predict results/unet3d data/nbody/box.h5 -o gas.h5\n"
      "  kolo predict results/unet3d dark.npy -o gas.npy --tile 128 -n 2");
}

}  // namespace kolo
