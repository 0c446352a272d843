#include <cmath>
#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/clock.h"
#include "kolo/run/predict_run.h"
#include "kolo/train/observe/format.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

struct PredictArguments {
  PredictionRequest request;
  RankOptions ranks;
};

std::string to_text(const RunPrediction& prediction) {
  const auto& tile = prediction.largest_tile;
  const double cells = std::pow(static_cast<double>(prediction.size), 3);
  const auto plural = [](std::int64_t count) { return count == 1 ? "" : "s"; };
  return fmt::format(
      "{}, {} (epoch {}, step {})\n{}: gas of {}^3 cells, {}\n\n"
      "tiles        {} of {} x {} x {} cells at most, {} rank{}\n"
      "time         {}, {} cells/s\n"
      "peak memory  {}\n",
      prediction.model, prediction.checkpoint, prediction.epoch, prediction.step, prediction.output,
      prediction.size, format_bytes(static_cast<std::uint64_t>(prediction.bytes)),
      format_count(prediction.tiles), tile[0], tile[1], tile[2], prediction.ranks,
      plural(prediction.ranks), format_duration(prediction.seconds),
      format_rate(cells / prediction.seconds), format_bytes(prediction.peak_memory));
}

int predict(const PredictArguments& arguments) {
  const auto& parts = arguments.ranks.chosen->program.parts;
  const auto check = [&] { return check_prediction(arguments.request, parts); };
  if (const auto status = start_ranks(arguments.ranks, check)) return *status;
  return predict_run(
      arguments.request,
      [&](const RunPrediction& prediction) { print_wrapped(to_text(prediction)); }, parts);
}

}  // namespace

void add_predict_command(CLI::App& app, Chosen& chosen) {
  constexpr std::int64_t most_cells = 1 << 20;
  const auto arguments = std::make_shared<PredictArguments>();
  auto& request = arguments->request;
  CLI::App* const command = app.add_subcommand(
      "predict", "Apply a trained network to a simulation box, larger than memory or not");
  add_text_option(*command, "path", request.run, "a run's folder or one of its checkpoints",
                  "A run's folder, or one of its checkpoints")
      ->required()
      ->type_name("RUN|CHECKPOINT");
  add_text_option(
      *command, "input", request.input, "a simulation box",
      "A simulation box, of which the dark matter is needed: an HDF5 file, a .npy file, "
      "or a pair's prefix")
      ->required()
      ->type_name("BOX");
  add_settings(*command, request.overrides,
               "key.sub=value: settings that replace the run's, for example device.kind=cpu");
  add_text_option(*command, "-o,--output", request.output, "a file's name",
                  "File for the predicted gas: FILE.h5 (HDF5) or FILE.npy")
      ->required()
      ->type_name("FILE");
  add_number_option(*command, "--tile", request.tile, {1, most_cells},
                    "Cells per edge to predict at a time, without the margin that is read around "
                    "them (default: as many as fit in memory)")
      ->type_name("CELLS");
  command->add_flag("--force", request.replaces, "Replace an existing output");
  add_rank_options(*command, arguments->ranks, chosen,
                   "Number of ranks to start; they share the tiles");
  add_text_option(*command, "--checkpoint", request.checkpoint, "best, newest or a step",
                  "Checkpoint of a run: best (least validation loss), newest, or a step's "
                  "(default: best)")
      ->type_name("best|newest|STEP");
  command->footer(
      "Examples:\n"
      "  kolo predict results/unet3d data/nbody/box.h5 -o gas.h5\n"
      "  kolo predict results/unet3d dark.npy -o gas.npy --tile 128 -n 2");
  on_choice(*command, chosen, arguments, predict);
}

}  // namespace kolo
