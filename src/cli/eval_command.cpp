#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/evaluation_output.h"
#include "cli/options.h"
#include "kolo/run/evaluate_run.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

struct EvalArguments {
  EvaluationRequest request;
  RankOptions ranks;
  bool json = false;
  std::string pictures;  // the folder; empty: none are drawn
};

constexpr std::int64_t drawn_samples = 12;

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
