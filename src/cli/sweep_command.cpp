#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/report/results_table.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/study/sweep.h"
#include "run/launch/terminal.h"
#include "run/run_folder.h"

namespace kolo {

namespace {

struct SweepArguments {
  ConfigOptions config;
  std::optional<int> random;
  RankOptions ranks;
  std::optional<int> at_once;
  std::string metric;
  std::optional<double> target;
  std::string output;
  bool dry_run = false;
};

SweepRequest request_of(const SweepArguments& arguments) {
  SweepRequest request{.config = arguments.config.source()};
  request.random = arguments.random.value_or(0);
  request.places = {.ranks = arguments.ranks.ranks.value_or(1),
                    .at_once = arguments.at_once.value_or(0),
                    .oversubscribe = arguments.ranks.oversubscribe};
  request.metric = arguments.metric;
  request.target = arguments.target;
  request.output = arguments.output;
  // On stderr, so that stdout is the result's.
  request.say = [](const std::string& line) { std::cerr << line << std::endl; };
  return request;
}

// How the best trial is trained alone.
std::string best_command(const SweepRequest& request, const Sweep& sweep) {
  const auto& best = sweep.trials[best_first(sweep).front()];
  if (format_metric(sweep.metric, best.best).empty()) return {};
  auto words = train_words(request, sweep, best);
  words.insert(words.begin(), {"kolo", "train"});
  return fmt::format("trial {} is the best; this trains it alone:\n  {}\n", best.number,
                     as_typed(words));
}

void show_end(const FinishedSweep& finished, const SweepRequest& request) {
  const auto& sweep = finished.sweep;
  print_wrapped(fmt::format("\n{}\n{}results in {}: report.html, sweep.json, sweep.csv, trials/\n",
                            to_text(sweep_results(sweep)), best_command(request, sweep),
                            finished.folder.string()));
}

int exit_status(const Sweep& sweep) {
  const bool failed = std::ranges::any_of(
      sweep.trials, [](const Trial& trial) { return trial.state == TrialState::failed; });
  return failed ? exit_failed : 0;
}

int sweep(const SweepArguments& arguments) {
  const auto request = request_of(arguments);
  if (arguments.dry_run) {
    std::cout << describe_sweep(request);
    return 0;
  }
  const auto finished = run_sweep(request);
  if (finished.was_stopped) {
    complain("stopped; the same command goes on from here");
    return exit_stopped;
  }
  show_end(finished, request);
  return exit_status(finished.sweep);
}

void add_trial_options(CLI::App& command, SweepArguments& arguments) {
  add_number_option(command, "--random", arguments.random, {1, 1'000'000},
                    "Draw so many trials, from lists and ranges, instead of all of a grid")
      ->type_name("N");
  add_choice_option(command, "--metric", arguments.metric, {"val_accuracy", "val_loss"},
                    "What is best, in any epoch: accuracy where there is one, unless given");
  add_number_option(command, "--target", arguments.target, {0, 1e9},
                    "A published accuracy (0.949) or loss, to stand beside mean and deviation of "
                    "the trials' last epochs")
      ->type_name("NUMBER");
}

void add_sweep_running_options(CLI::App& command, SweepArguments& arguments) {
  add_rank_options(command, arguments.ranks, "Ranks of each trial (default: 1)");
  add_number_option(command, "--trials-at-once", arguments.at_once, {1, most_ranks},
                    "So many trials side by side; as many as there are cores for, unless given")
      ->type_name("N");
  add_text_option(command, "-o,--output", arguments.output, "a folder",
                  "The sweep's folder, instead of output_dir with -sweep after it")
      ->type_name("DIR");
  command.add_flag("--dry-run", arguments.dry_run, "Show the trials, and do nothing else");
}

}  // namespace

void add_sweep_command(CLI::App& app, std::function<int()>& action) {
  const auto arguments = std::make_shared<SweepArguments>();
  CLI::App* const command =
      app.add_subcommand("sweep", "Train with many values of a configuration's keys, side by side");
  add_config_options(*command, arguments->config);
  command->get_option(settings_name)
      ->description(
          "key.sub=value: settings of all trials; key=a,b,c: values to try; with --random also "
          "ranges: key=1..100, key=log:1e-4..1e-1");
  add_trial_options(*command, *arguments);
  add_sweep_running_options(*command, *arguments);
  command->footer(
      "Each trial is a run of kolo train, with processors of its own. One that fails harms no\n"
      "other. The same command again goes on with what was interrupted, and tries once more what\n"
      "failed; with more values, or a larger --random, it adds trials.\n\n"
      "Examples:\n"
      "  kolo sweep configs/fashion_mnist.yaml optimizer.lr=0.1,0.01,0.001 \\\n"
      "      training.batch_size=32,128\n"
      "  kolo sweep configs/fashion_mnist.yaml optimizer.lr=log:1e-4..1e-1 --random 16\n"
      "  kolo sweep configs/fashion_mnist.yaml optimizer.name,optimizer.lr=sgd:0.1,adam:0.001\n"
      "  kolo sweep configs/fashion_mnist.yaml seed=1,2,3 --target 0.92\n"
      "  kolo sweep configs/unet3d.yaml --config tiny optimizer.lr=1e-3,1e-4 -n 2 \\\n"
      "      --trials-at-once 1\n\n"
      "Exit status: 0 done, 1 a trial failed, 2 wrong input, 75 stopped on request.");
  command->callback([arguments, &action] { action = [arguments] { return sweep(*arguments); }; });
}

}  // namespace kolo
