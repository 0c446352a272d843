#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/report/results_table.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/study/scale_study.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

struct ScaleArguments {
  ConfigOptions config;
  ScaleRequest request;
  std::string output, parallel;
  std::vector<std::string> lr_scalings;
  bool dry_run = false;
};

void show_end(const ScaledStudy& scaled) {
  print_wrapped(fmt::format("\n{}\nresults in {}: report.html, study.json, runs/\n",
                            to_text(study_results(scaled.study)), scaled.folder.string()));
}

int exit_status(const Study& study) {
  const bool failed = std::ranges::any_of(
      study.points, [](const StudyPoint& point) { return point.state == StudyPointState::failed; });
  return failed ? 1 : 0;
}

void say_what_is_submitted(const Study& study) {
  const auto waiting = std::ranges::count_if(study.points, [](const StudyPoint& point) {
    return point.state == StudyPointState::submitted;
  });
  if (waiting > 0)
    std::cerr << fmt::format(
        "{} of {} points are with the scheduler; the same command collects what "
        "is done\n",
        waiting, study.points.size());
}

// On stderr, so that stdout is the results'.
void say(const std::string& line) {
  std::cerr << line << std::endl;
}

int scale(ScaleArguments arguments) {
  auto& request = arguments.request;
  request.config = arguments.config.source();
  request.output = arguments.output;
  request.spatial = arguments.parallel == "spatial";
  for (const auto& scaling : arguments.lr_scalings)
    request.lr_scalings.push_back(find_named<Scaling>(scaling).value());
  request.say = say;
  if (arguments.dry_run) {
    std::cout << describe_scale_study(request);
    return 0;
  }
  const auto scaled = scale_study(request);
  if (scaled.was_stopped) {
    say("stopped; the same command goes on from here");
    return exit_stopped;
  }
  show_end(scaled);
  say_what_is_submitted(scaled.study);
  return exit_status(scaled.study);
}

void add_study_options(CLI::App& command, ScaleArguments& arguments) {
  add_config_options(command, arguments.config);
  add_list_option(command, "--ranks", arguments.request.ranks, {1, most_ranks},
                  "The numbers of ranks, for example 1,2,4")
      ->required()
      ->type_name("N,...");
  command.add_flag("--strong", arguments.request.strong,
                   "The batch of all ranks stays as it is, instead of that of a rank");
  add_choice_option(command, "--parallel", arguments.parallel, {"data", "spatial"},
                    "What ranks share: data (the samples are dealt out, the default) or spatial "
                    "(all ranks share each sample; the batch stays as it is)");
  add_choices_option(command, "--lr-scaling", arguments.lr_scalings, {"none", "linear", "sqrt"},
                     "Each of these, for every number of ranks: none, linear, sqrt")
      ->type_name("RULE,...");
  add_list_option(command, "--warmup", arguments.request.warmup_epochs, {0, 1e9},
                  "Each of these, for every number of ranks: epochs of warm-up")
      ->type_name("EPOCHS,...");
  add_text_option(command, "-o,--output", arguments.output, "a folder",
                  "The study's folder, instead of output_dir with -weak, -strong or -spatial "
                  "after it")
      ->type_name("DIR");
}

void add_running_options(CLI::App& command, ScaleArguments& arguments) {
  command.add_flag("--oversubscribe", arguments.request.oversubscribe,
                   "Allow more ranks than the machine has cores");
  CLI::Option* const submit =
      add_choice_option(command, "--submit", arguments.request.scheduler.name, {"slurm", "pbs"},
                        "Hand each run to a scheduler as a job of its own: slurm or pbs");
  add_text_option(command, "--submit-options", arguments.request.scheduler.options,
                  "options of sbatch or qsub", "More options of sbatch or qsub, in one word")
      ->needs(submit)
      ->type_name("\"OPTION...\"");
  add_text_option(command, "--job-script", arguments.request.scheduler.script, "a file",
                  "What a job runs, instead of kolo's submit/slurm/train.sh or "
                  "submit/pbs/polaris.sh")
      ->needs(submit)
      ->type_name("FILE");
  add_number_option(command, "--ranks-per-node", arguments.request.ranks_per_node, {1, most_ranks},
                    "How many ranks a node takes; all, unless given")
      ->type_name("N");
  command.add_flag("--dry-run", arguments.dry_run, "Show the runs, and do nothing else");
}

}  // namespace

void add_scale_command(CLI::App& app, std::function<int()>& action) {
  const auto arguments = std::make_shared<ScaleArguments>();
  CLI::App* const command = app.add_subcommand(
      "scale", "Train on several numbers of ranks, and compare speed and accuracy");
  add_study_options(*command, *arguments);
  add_running_options(*command, *arguments);
  command->footer(
      "The same command again goes on with a study that was interrupted, and runs again what\n"
      "failed; with more --ranks it adds to the study. Every rank gets as many threads in every\n"
      "run: what the run with the most ranks leaves to each, unless device.intra_threads says.\n\n"
      "Examples:\n"
      "  kolo scale configs/fashion_mnist.yaml --ranks 1,2 training.n_epochs=2\n"
      "  kolo scale configs/fashion_mnist.yaml --ranks 1,2,4,8 --oversubscribe \\\n"
      "      --lr-scaling none,linear --warmup 0,3\n"
      "  kolo scale configs/fashion_mnist.yaml --ranks 1,2 --strong\n"
      "  kolo scale configs/unet3d.yaml --config tiny --ranks 1,2,4 --parallel spatial\n"
      "  kolo scale configs/unet3d.yaml --config tiny --ranks 8,16,32 --ranks-per-node 8 \\\n"
      "      --submit slurm --submit-options \"--time 1:00:00 --partition cpu\"\n\n"
      "Exit status: 0 done, 1 a run failed, 2 wrong input, 75 stopped on request.");
  command->callback([arguments, &action] { action = [arguments] { return scale(*arguments); }; });
}

}  // namespace kolo
