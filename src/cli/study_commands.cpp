// kolo bench, scale and sweep: the commands that measure and compare trainings.
#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/report/results_table.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/study/bench.h"
#include "kolo/study/scale_study.h"
#include "kolo/study/sweep.h"
#include "run/launch/signals.h"
#include "run/launch/terminal.h"
#include "run/run_folder.h"

namespace kolo {

namespace {

struct BenchArguments {
  BenchRequest request;
  RankOptions ranks;
  std::string mode = "all";
  bool json = false;
};

int bench(const BenchArguments& arguments) {
  auto request = arguments.request;
  if (const auto mode = find_named<BenchMode>(arguments.mode)) request.modes = {*mode};
  const auto check = [&] { return check_bench(request, *arguments.ranks.ranks); };
  if (const auto status = start_ranks(arguments.ranks, check)) return *status;
  return bench_run(request, [&](const BenchReport& report) {
    if (arguments.json)
      std::cout << to_json(report).dump() << std::endl;
    else
      print_wrapped(to_text(report));
  });
}

}  // namespace

void add_bench_command(CLI::App& app, Chosen& chosen) {
  const auto [command, arguments] = add_command(
      app, chosen, "bench", "Measure how fast a configuration trains, and what bounds it", bench);
  arguments->request.components = chosen.program.components;
  add_config_options(*command, arguments->request.config);
  add_rank_options(*command, arguments->ranks, chosen, "Number of ranks to start");
  add_choice_option(*command, "--mode", arguments->mode, {"io", "synthetic", "full", "all"},
                    "io: the loader alone. synthetic: training steps on one batch of random "
                    "numbers; needs no data. full: both. all: all three (default)");
  auto& plan = arguments->request.plan;
  constexpr std::int64_t most = 1000000000;
  add_number_option(*command, "--steps STEPS", plan.steps, {1, most},
                    "Steps per trial (default: 10)");
  add_number_option(*command, "--warmup STEPS", plan.warmup, {0, most},
                    "Steps before the first trial (default: 5)");
  add_number_option(*command, "--trials TRIALS", plan.trials, {1, 1000000},
                    "Trials per mode (default: 5)");
  command
      ->add_flag("--profile", arguments->request.profile,
                 "Also time the parts of a step, each layer beside the least that it could take, "
                 "and all-reduces of 4 KiB to 64 MiB among the ranks")
      ->group("Where a step's time goes");
  command->add_flag("--json", arguments->json, "Print one JSON object, with every trial");
  command->footer(
      "Writes nothing to disk and keeps nothing of the training.\n\n"
      "Examples:\n"
      "  kolo bench configs/fashion_mnist.yaml -n 2\n"
      "  kolo bench configs/unet3d.yaml --config tiny -n 2 data.workers=2\n"
      "  kolo bench configs/cifar10_cnn.yaml -n 2 --mode full --profile\n"
      "  kolo bench configs/unet3d.yaml --config short --mode synthetic --steps 3 \\\n"
      "      --trials 3 data.mode=synthetic data.box_size=128 training.local_batch_size=2");
}

namespace {

struct ScaleArguments {
  ScaleRequest request;
  std::string parallel;
  std::vector<std::string> lr_scalings;
  bool dry_run = false;
};

// Reports progress on stderr, because stdout is for results.
void say(const std::string& line) {
  std::cerr << line << std::endl;
}

int stopped() {
  complain("stopped; the same command goes on from here");
  return exit_stopped;
}

// Exit status of a study or sweep.
template <typename Parts, typename State>
int exit_status(const Parts& parts, State failed) {
  const bool has_failed =
      std::ranges::any_of(parts, [=](const auto& part) { return part.state == failed; });
  return has_failed ? exit_failed : 0;
}

int scale(const ScaleArguments& arguments) {
  auto request = arguments.request;
  request.spatial = arguments.parallel == "spatial";
  for (const auto& scaling : arguments.lr_scalings)
    request.lr_scalings.push_back(find_named<Scaling>(scaling).value());
  request.say = say;
  if (arguments.dry_run) {
    std::cout << describe_scale_study(request);
    return 0;
  }
  outlive_readers();
  const auto scaled = scale_study(request);
  if (scaled.was_stopped) return stopped();
  print_wrapped(fmt::format("\n{}\nresults in {}: report.html, study.json, runs/\n",
                            to_text(study_results(scaled.study)), scaled.folder.string()));
  const auto& points = scaled.study.points;
  const auto waiting = std::ranges::count(points, StudyPointState::submitted, &StudyPoint::state);
  if (waiting > 0) {
    say(fmt::format(
        "{} of {} points are with the scheduler; the same command collects what is done", waiting,
        points.size()));
  }
  return exit_status(points, StudyPointState::failed);
}

void add_study_options(CLI::App& command, ScaleArguments& arguments) {
  add_config_options(command, arguments.request.config);
  add_list_option(command, "--ranks N,...", arguments.request.ranks, {1, most_ranks},
                  "Numbers of ranks, for example 1,2,4")
      ->required();
  command.add_flag("--strong", arguments.request.strong,
                   "Keep the total batch, instead of the batch per rank");
  add_choice_option(command, "--parallel", arguments.parallel, {"data", "spatial"},
                    "data: each rank trains on its own samples (default). spatial: all ranks share "
                    "each sample, and the batch stays the same");
  add_choices_option(command, "--lr-scaling RULE,...", arguments.lr_scalings,
                     known_names<Scaling>(),
                     "Rules to compare for every number of ranks: none, linear, sqrt");
  add_list_option(command, "--warmup EPOCHS,...", arguments.request.warmup_epochs, {0, 1e9},
                  "Epochs of warm-up to compare for every number of ranks");
  add_text_option(command, "-o,--output DIR", arguments.request.output, "a folder",
                  "Folder of the study (default: output_dir with -weak, -strong or -spatial)");
}

void add_running_options(CLI::App& command, ScaleArguments& arguments) {
  command.add_flag("--oversubscribe", arguments.request.oversubscribe,
                   "Allow more ranks than cores");
  command.add_flag("--dry-run", arguments.dry_run, "Only list the runs");
  CLI::Option* const submit =
      add_choice_option(command, "--submit", arguments.request.scheduler.name, {"slurm", "pbs"},
                        "Submit each run as a job of its own: slurm or pbs");
  submit->group(cluster_options);
  add_text_option(command, "--submit-options \"OPTION...\"", arguments.request.scheduler.options,
                  "options of sbatch or qsub",
                  "With --submit: more options for sbatch or qsub, in one word")
      ->needs(submit)
      ->group(cluster_options);
  add_text_option(command, "--job-script FILE", arguments.request.scheduler.script, "a file",
                  "With --submit: job script (default: kolo's submit/slurm/train.sh or "
                  "submit/pbs/polaris.sh)")
      ->needs(submit)
      ->group(cluster_options);
  add_number_option(command, "--ranks-per-node N", arguments.request.ranks_per_node,
                    {1, most_ranks}, "Ranks per node (default: all)")
      ->group(cluster_options);
}

}  // namespace

void add_scale_command(CLI::App& app, Chosen& chosen) {
  const auto [command, arguments] =
      add_command(app, chosen, "scale",
                  "Train on several numbers of ranks, and compare speed and accuracy", scale);
  arguments->request.program_name = chosen.program.name;
  arguments->request.components = chosen.program.components;
  add_study_options(*command, *arguments);
  add_running_options(*command, *arguments);
  command->footer(
      "The same command again resumes an interrupted study and repeats failed runs; with more "
      "--ranks it extends the study. All runs give a rank equally many threads: as many as the run "
      "with the most ranks leaves to each, unless device.intra_threads says otherwise.\n\n"
      "Examples:\n"
      "  kolo scale configs/fashion_mnist.yaml --ranks 1,2 training.n_epochs=2\n"
      "  kolo scale configs/fashion_mnist.yaml --ranks 1,2,4,8 --oversubscribe \\\n"
      "      --lr-scaling none,linear --warmup 0,3\n"
      "  kolo scale configs/fashion_mnist.yaml --ranks 1,2 --strong\n"
      "  kolo scale configs/unet3d.yaml --config tiny --ranks 1,2,4 --parallel spatial\n"
      "  kolo scale configs/unet3d.yaml --config tiny --ranks 8,16,32 \\\n"
      "      --ranks-per-node 8 --submit slurm \\\n"
      "      --submit-options \"--time 1:00:00 --partition cpu\"\n\n"
      "Exit status: 0 done, 1 a run failed, 2 wrong input, 75 stopped on request.");
}

namespace {

struct SweepArguments {
  SweepRequest request;
  RankOptions ranks;
  bool dry_run = false;
};

// Command that trains the best trial alone.
std::string best_command(const SweepRequest& request, const Sweep& sweep) {
  const auto& best = sweep.trials[best_first(sweep).front()];
  if (format_metric(sweep.metric, best.best).empty()) return {};
  auto words = train_words(request, sweep, best);
  words.insert(words.begin(), {request.program_name, "train"});
  return fmt::format("trial {} is the best; this trains it alone:\n  {}\n", best.number,
                     as_typed(words));
}

int sweep(const SweepArguments& arguments) {
  auto request = arguments.request;
  request.sites.ranks = arguments.ranks.ranks.value_or(1);
  request.sites.oversubscribe = arguments.ranks.oversubscribe;
  request.say = say;
  if (arguments.dry_run) {
    std::cout << describe_sweep(request);
    return 0;
  }
  outlive_readers();
  const auto finished = run_sweep(request);
  if (finished.was_stopped) return stopped();
  print_wrapped(fmt::format("\n{}\n{}results in {}: report.html, sweep.json, trials/\n",
                            to_text(sweep_results(finished.sweep)),
                            best_command(request, finished.sweep), finished.folder.string()));
  return exit_status(finished.sweep.trials, TrialState::failed);
}

void add_sweep_options(CLI::App& command, SweepArguments& arguments, const Chosen& chosen) {
  add_number_option(command, "--random N", arguments.request.random, {1, 1'000'000},
                    "Draw this many trials from lists and ranges, instead of the whole grid");
  add_choice_option(command, "--metric", arguments.request.metric, {"val_accuracy", "val_loss"},
                    "Metric to rank trials by (default: accuracy where there is one)");
  add_number_option(command, "--target NUMBER", arguments.request.target, {0, 1e9},
                    "A published accuracy (0.949) or loss, shown beside mean and deviation of the "
                    "trials' last epochs");
  add_rank_options(command, arguments.ranks, chosen, "Ranks per trial (default: 1)");
  add_number_option(command, "--trials-at-once N", arguments.request.sites.at_once, {1, most_ranks},
                    "Number of trials side by side (default: as many as the cores allow)");
  add_text_option(command, "-o,--output DIR", arguments.request.output, "a folder",
                  "Folder of the sweep (default: output_dir with -sweep)");
  command.add_flag("--dry-run", arguments.dry_run, "Only list the trials");
}

}  // namespace

void add_sweep_command(CLI::App& app, Chosen& chosen) {
  const auto [command, arguments] =
      add_command(app, chosen, "sweep",
                  "Train with many values of a configuration's keys, side by side", sweep);
  arguments->request.program_name = chosen.program.name;
  arguments->request.components = chosen.program.components;
  add_config_options(*command, arguments->request.config);
  command->get_option(settings_name)
      ->description(
          "key.sub=value: settings of all trials; key=a,b,c: values to try; with --random also "
          "ranges: key=1..100, key=log:1e-4..1e-1");
  add_sweep_options(*command, *arguments, chosen);
  command->footer(
      "Each trial is a run of kolo train on processors of its own. A trial that fails harms no "
      "other. The same command again resumes interrupted trials and repeats failed ones; with more "
      "values, or a larger --random, it adds trials.\n\n"
      "Examples:\n"
      "  kolo sweep configs/fashion_mnist.yaml optimizer.lr=0.1,0.01,0.001 \\\n"
      "      training.batch_size=32,128\n"
      "  kolo sweep configs/fashion_mnist.yaml optimizer.lr=log:1e-4..1e-1 --random 16\n"
      "  kolo sweep configs/fashion_mnist.yaml \\\n"
      "      optimizer.name,optimizer.lr=sgd:0.1,adam:0.001\n"
      "  kolo sweep configs/fashion_mnist.yaml seed=1,2,3 --target 0.92\n"
      "  kolo sweep configs/unet3d.yaml --config tiny optimizer.lr=1e-3,1e-4 -n 2 \\\n"
      "      --trials-at-once 1\n\n"
      "Exit status: 0 done, 1 a trial failed, 2 wrong input, 75 stopped on request.");
}

}  // namespace kolo
