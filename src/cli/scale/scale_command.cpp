#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/option_values.h"
#include "cli/scale/simulate.h"
#include "cli/scale/study_folder.h"
#include "cli/scale/study_plan.h"
#include "cli/scale/study_runs.h"
#include "cli/shared_options.h"
#include "kolo/base/cpu_limits.h"
#include "kolo/base/error.h"
#include "kolo/base/suggest.h"
#include "kolo/config/factories.h"
#include "kolo/launch/exit_status.h"
#include "kolo/launch/launch_ranks.h"
#include "kolo/report/results_table.h"
#include "launch/terminal.h"
#include "run/run_training.h"

namespace kolo {

namespace {

struct ScaleArguments {
  StudyRequest study;
  bool weak = false;
  std::string output;
  RunningOptions running;
  SchedulerOptions scheduler;
  SimulationOptions simulation;
  bool dry_run = false;
  bool json = false;
};

bool submits(const ScaleArguments& arguments) {
  return !arguments.scheduler.name.empty();
}

void require_sense(const ScaleArguments& arguments) {
  if (arguments.weak && arguments.study.strong)
    throw InputError("--weak and --strong: a study is one or the other");
  if (arguments.study.ranks_per_node < 0)
    throw InputError(
        fmt::format("--ranks-per-node {}: the least is 1", arguments.study.ranks_per_node));
  const auto environment = detect_launch_environment();
  if (environment.is_launched())
    throw InputError(
        fmt::format("kolo scale starts ranks itself, but {} has started {} of it; start "
                    "it once, without a launcher",
                    environment.launcher, environment.size));
}

// Every rank gets as much of the machine in every run, or the numbers would not compare: what the
// run with the most ranks leaves to each, or what it was when the study began.
void settle_threads(StudyRequest& request, const StudyFolder& folder) {
  request.cores = detect_cpu_limits().cores();
  if (detect_launch_environment().in_slurm_allocation || request.ranks.empty()) return;
  const int share = request.cores / std::max(1, std::ranges::max(request.ranks));
  const int earlier = folder.threads();
  request.threads = earlier > 0 ? earlier : std::max(1, share);
}

// All that can be wrong is found before the first run.
void check_runs(const ScaleArguments& arguments, const RunConfig& base, const Study& study) {
  const auto machine = examine_machine(detect_launch_environment());
  for (const StudyPoint& point : study.points) {
    (void)rank_command({.ranks = point.ranks,
                        .oversubscribe = arguments.running.oversubscribe,
                        .threads = base.device.intra_threads},
                       machine);
  }
  RunConfig config = base;
  config.training.batch_size = study.points.back().batch_size;
  config.training.global_batch_size.reset();
  (void)prepare_run(config, {}, {}, study.points.back().ranks);
}

bool simulates(const ScaleArguments& arguments) {
  return !arguments.simulation.ranks.empty();
}

// How many samples an epoch has is the data's business.
std::int64_t samples_per_epoch(const RunConfig& base) {
  return make_datasets(base).training->size();
}

void show_end(const ScaleArguments& arguments, const StudyFolder& folder, const Study& study) {
  if (arguments.json) {
    std::cout << study.to_json().dump() << std::endl;
    return;
  }
  auto text = fmt::format("\n{}\n", to_text(study_results(study)));
  if (const auto checks = prediction_checks(study); !checks.rows.empty())
    text += fmt::format("{}:\n\n{}\n", checks.title, to_text(checks));
  print_wrapped(fmt::format("{}results in {}: report.html, study.json, study.csv, runs/\n", text,
                            folder.path.string()));
}

int exit_status(const Study& study) {
  const bool failed = std::ranges::any_of(
      study.points, [](const StudyPoint& point) { return point.state == StudyPointState::failed; });
  return failed ? 1 : 0;
}

// As the tables and reports name it: results/digits-weak.
std::string output_of(const ScaleArguments& arguments, const RunConfig& base) {
  if (!arguments.output.empty()) return arguments.output;
  return fmt::format("{}-{}", base.output_dir, arguments.study.strong ? "strong" : "weak");
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

int scale(ScaleArguments arguments) {
  require_sense(arguments);
  ConfigSource source = arguments.study.config.source();
  const RunConfig base = load_run_config(source);
  const StudyFolder folder{output_of(arguments, base)};
  if (!submits(arguments)) settle_threads(arguments.study, folder);
  arguments.study.simulated_ranks = arguments.simulation.ranks;
  arguments.simulation.ranks_per_node = arguments.study.ranks_per_node;
  check(arguments.simulation, arguments.study.cores);
  Study study = plan_study(arguments.study, base);
  if (submits(arguments))
    arguments.scheduler = checked(arguments.scheduler);
  else
    check_runs(arguments, base, study);
  folder.require_same(study, to_yaml(base));
  if (arguments.dry_run) {
    folder.collect(study);
    std::cout << describe_plan(arguments.study, folder, study);
    return 0;
  }
  const auto lock = folder.lock();
  study = folder.open(study, to_yaml(base));
  folder.collect(study);
  folder.write(study);
  arguments.running.quiet |= arguments.json;
  bool is_complete = true;
  if (submits(arguments))
    submit_points(arguments.study, folder, study, arguments.scheduler);
  else
    is_complete = run_points(arguments.study, folder, study, arguments.running);
  if (!is_complete) {
    std::cerr << "stopped; the same command goes on from here" << std::endl;
    return exit_stopped;
  }
  if (simulates(arguments)) {
    add_predictions(study, arguments.study, arguments.simulation, samples_per_epoch(base));
    folder.write(study);
  }
  folder.write_report();
  show_end(arguments, folder, study);
  say_what_is_submitted(study);
  return exit_status(study);
}

void add_study_options(CLI::App& command, ScaleArguments& arguments) {
  add_config_options(command, arguments.study.config);
  add_list_option(command, "--ranks", arguments.study.ranks, {1, most_ranks},
                  "The numbers of ranks, for example 1,2,4")
      ->required()
      ->type_name("N,...");
  command.add_flag("--weak", arguments.weak,
                   "The batch of a rank stays as it is (what happens unless --strong is given)");
  command.add_flag("--strong", arguments.study.strong, "The batch of all ranks stays as it is");
  add_choices_option(command, "--lr-scaling", arguments.study.lr_scalings,
                     {"none", "linear", "sqrt"},
                     "Each of these, for every number of ranks: none, linear, sqrt")
      ->type_name("RULE,...");
  add_list_option(command, "--warmup", arguments.study.warmup_epochs, {0, 1e9},
                  "Each of these, for every number of ranks: epochs of warm-up")
      ->type_name("EPOCHS,...");
  add_text_option(command, "-o,--output", arguments.output, "a folder",
                  "The study's folder, instead of output_dir with -weak or -strong after it")
      ->type_name("DIR");
}

void add_running_options(CLI::App& command, ScaleArguments& arguments) {
  command.add_flag("--oversubscribe", arguments.running.oversubscribe,
                   "Allow more ranks than the machine has cores");
  CLI::Option* const submit =
      add_choice_option(command, "--submit", arguments.scheduler.name, {"slurm", "pbs"},
                        "Hand each run to a scheduler as a job of its own: slurm or pbs");
  add_text_option(command, "--submit-options", arguments.scheduler.options,
                  "options of sbatch or qsub", "More options of sbatch or qsub, in one word")
      ->needs(submit)
      ->type_name("\"OPTION...\"");
  add_text_option(command, "--job-script", arguments.scheduler.script, "a file",
                  "What a job runs, instead of kolo's submit/slurm/train.sh or "
                  "submit/pbs/polaris.sh")
      ->needs(submit)
      ->type_name("FILE");
  add_number_option(command, "--ranks-per-node", arguments.study.ranks_per_node, {1, most_ranks},
                    "How many ranks a node takes; all, unless given")
      ->type_name("N");
  CLI::Option* const simulate =
      add_list_option(command, "--simulate", arguments.simulation.ranks, {1, most_ranks},
                      "Predict these numbers of ranks too, from measured steps and a model of the "
                      "network")
          ->type_name("N,...");
  add_choice_option(
      command, "--network", arguments.simulation.network, network_names(),
      fmt::format("What is between the nodes of --simulate: {}", join(network_names())))
      ->needs(simulate)
      ->type_name("NAME");
  add_choice_option(
      command, "--all-reduce", arguments.simulation.algorithm, {"ring", "tree", "hierarchical"},
      "How --simulate averages: ring, tree, or hierarchical, as kolo does (the default)")
      ->needs(simulate);
  command.add_flag("--dry-run", arguments.dry_run, "Show the runs, and do nothing else");
  command.add_flag("--quiet", arguments.running.quiet,
                   "Don't show what the runs say; it is in their out.log");
  command.add_flag("--json", arguments.json, "Print the study as one JSON object at the end");
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
      "  kolo scale configs/fashion_mnist.yaml --ranks 1,2 --simulate 64,1024 \\\n"
      "      --ranks-per-node 32 --network slingshot-11\n"
      "  kolo scale configs/unet3d.yaml --config tiny --ranks 8,16,32 --ranks-per-node 8 \\\n"
      "      --submit slurm --submit-options \"--time 1:00:00 --partition cpu\"\n\n"
      "Exit status: 0 done, 1 a run failed, 2 wrong input, 75 stopped on request.");
  command->callback([arguments, &action] { action = [arguments] { return scale(*arguments); }; });
}

}  // namespace kolo
