#include <iostream>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/study/bench.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

struct BenchArguments {
  ConfigOptions config;
  RankOptions ranks;
  std::string mode = "all";
  BenchRequest request;
  bool json = false;
};

std::vector<BenchMode> modes_of(const std::string& name) {
  if (name == "io") return {BenchMode::io};
  if (name == "synthetic") return {BenchMode::synthetic};
  if (name == "full") return {BenchMode::full};
  return {BenchMode::io, BenchMode::synthetic, BenchMode::full};
}

void print(const BenchReport& report, bool json) {
  if (json)
    std::cout << to_json(report).dump() << std::endl;
  else
    print_wrapped(to_text(report));
}

int bench(BenchArguments arguments, const std::vector<std::string>& words) {
  arguments.request.config = arguments.config.source();
  arguments.request.modes = modes_of(arguments.mode);
  const auto check = [&] { return check_bench(arguments.request, *arguments.ranks.ranks); };
  const auto status = start_ranks(arguments.ranks, words, check);
  if (status) return *status;
  return bench_run(arguments.request,
                   [&](const BenchReport& report) { print(report, arguments.json); });
}

void add_plan_options(CLI::App& command, BenchPlan& plan) {
  constexpr std::int64_t most = 1000000000;
  add_number_option(command, "--steps", plan.steps, {1, most}, "Steps of a trial (default: 10)")
      ->type_name("STEPS");
  add_number_option(command, "--warmup", plan.warmup, {0, most},
                    "Steps before the first trial (default: 5)")
      ->type_name("STEPS");
  add_number_option(command, "--trials", plan.trials, {1, 1000000},
                    "Trials of each mode (default: 5)")
      ->type_name("TRIALS");
}

}  // namespace

void add_bench_command(CLI::App& app, std::function<int()>& action,
                       const std::vector<std::string>& words) {
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App* const command =
      app.add_subcommand("bench", "Measure how fast a configuration trains, and what bounds it");
  add_config_options(*command, arguments->config);
  add_rank_options(*command, arguments->ranks, "Start so many ranks");
  add_choice_option(*command, "--mode", arguments->mode, {"io", "synthetic", "full", "all"},
                    "io: the loader alone; synthetic: training steps on one batch of random "
                    "numbers, for which no data is needed; full: both; all three (default)");
  add_plan_options(*command, arguments->request.plan);
  command->add_flag("--profile", arguments->request.profile,
                    "Also the parts of a step without communication, and when each bucket of "
                    "gradients is ready");
  command->add_flag("--collectives", arguments->request.collectives,
                    "Also all-reduces of 4 KiB to 64 MiB among the ranks");
  command->add_flag("--json", arguments->json, "Print one JSON object, with every trial");
  command->footer(
      "Nothing is written to disk, and what is trained is lost.\n\n"
      "Examples:\n"
      "  kolo bench configs/fashion_mnist.yaml -n 2\n"
      "  kolo bench configs/unet3d.yaml --config tiny -n 2 data.workers=2\n"
      "  kolo bench configs/cifar10_cnn.yaml -n 2 --mode full --profile --collectives --json\n"
      "  kolo bench configs/unet3d.yaml --config short --mode synthetic --steps 3 --trials 3\n"
      "      data.mode=synthetic data.box_size=128 training.local_batch_size=2");
  command->callback([arguments, &words, &action] {
    action = [arguments, &words] { return bench(*arguments, words); };
  });
}

}  // namespace kolo
