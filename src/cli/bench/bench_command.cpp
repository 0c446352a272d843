#include <iostream>

#include <fmt/format.h>

#include "cli/bench/measure.h"
#include "cli/commands.h"
#include "cli/launch/launch_environment.h"
#include "cli/launch/launch_ranks.h"
#include "cli/rank/rank_guard.h"
#include "cli/rank/rank_setup.h"
#include "cli/shared_options.h"
#include "kolo/base/allocator.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/config/factories.h"
#include "kolo/observe/memory.h"

namespace kolo {

namespace {

struct BenchArguments {
  ConfigOptions config;
  RankOptions ranks;
  std::string mode = "all";
  BenchPlan plan;
  bool json = false;
};

// What can be wrong on the user's side, made and checked before any rank is started.
struct PreparedBench {
  RunConfig config;
  Datasets datasets;
  std::shared_ptr<Network> network;
  std::unique_ptr<FlatOptimizer> optimizer;
};

PreparedBench prepare(const BenchArguments& arguments, int ranks) {
  RunConfig config = load_run_config(arguments.config.source());
  (void)batch_size_of(config.training, ranks);
  require_precision(precision_named(config.training.precision));
  PreparedBench prepared{config, make_datasets(config), nullptr, make_optimizer(config)};
  prepared.network = make_network(config, prepared.datasets.training->layout());
  (void)make_training_loader(config, prepared.datasets.training, 0, ranks);
  return prepared;
}

std::vector<BenchMode> modes_of(const std::string& name) {
  if (name == "io") return {BenchMode::io};
  if (name == "synthetic") return {BenchMode::synthetic};
  if (name == "full") return {BenchMode::full};
  return {BenchMode::io, BenchMode::synthetic, BenchMode::full};
}

// As kolo train makes it. Numbers that stop being finite, as they may when a batch is trained on
// for long, are no reason to stop measuring.
std::unique_ptr<Trainer> make_trainer(PreparedBench& prepared, const Communicator& communicator,
                                      Loader& loader, Loader& validation) {
  const auto& config = prepared.config;
  auto options = make_trainer_options(config);
  if (options.non_finite == NonFiniteStep::stop) options.non_finite = NonFiniteStep::ignore;
  return std::make_unique<Trainer>(
      communicator, prepared.network, make_objective(config), std::move(prepared.optimizer),
      make_learning_rate(config, communicator.size(), loader.batches()), loader, validation,
      options);
}

std::vector<std::int64_t> gather_memory(const Communicator& communicator) {
  const auto mine = narrow<std::int64_t>(peak_resident_bytes());
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&mine, 1), std::span(all));
  return all;
}

BenchSetup setup_of(const BenchArguments& arguments, const RunConfig& config, int ranks) {
  const auto& plan = arguments.plan;
  const auto& [file, chosen, overrides] = arguments.config;
  const auto name = chosen.empty() ? file.string() : fmt::format("{} {}", file.string(), chosen);
  return {name,
          config.model.name,
          config.data.name,
          config.training.precision,
          ranks,
          batch_size_of(config.training, ranks),
          at::get_num_threads(),
          plan.steps,
          plan.warmup,
          plan.trials};
}

BenchReport measure_all(const BenchArguments& arguments, PreparedBench& prepared,
                        const Communicator& communicator) {
  const auto& config = prepared.config;
  const auto& plan = arguments.plan;
  const auto loader = make_training_loader(config, prepared.datasets.training, communicator.rank(),
                                           communicator.size());
  const auto validation = make_validation_loader(config, prepared.datasets.validation,
                                                 communicator.rank(), communicator.size());
  BenchReport report{setup_of(arguments, config, communicator.size()), {}, {}};
  std::unique_ptr<Trainer> trainer;
  for (const BenchMode mode : modes_of(arguments.mode)) {
    std::vector<BenchTrial> mine;
    if (mode == BenchMode::io) {
      mine = measure_loader(communicator, *loader, plan);
    } else {
      if (!trainer) trainer = make_trainer(prepared, communicator, *loader, *validation);
      mine = mode == BenchMode::synthetic ? measure_steps(communicator, *trainer, *loader, plan)
                                          : measure_training(communicator, *trainer, *loader, plan);
    }
    report.measurements.push_back({mode, gather(communicator, mine)});
  }
  report.peak_bytes = gather_memory(communicator);
  return report;
}

int bench_as_rank(const BenchArguments& arguments, const LaunchEnvironment& environment) {
  keep_freed_memory();
  auto prepared = prepare(arguments, environment.size);
  set_threads(prepared.config.device, environment);
  const Communicator communicator = make_communicator(prepared.config.communication, environment);
  return run_guarded(communicator, [&] {
    if (communicator.rank() == 0) {
      for (const auto& warning : prepared.datasets.warnings)
        std::cerr << fmt::format("kolo: warning: {}", warning) << std::endl;
    }
    const auto report = measure_all(arguments, prepared, communicator);
    if (communicator.rank() != 0) return 0;
    if (arguments.json)
      std::cout << to_json(report).dump() << std::endl;
    else
      std::cout << to_text(report) << std::flush;
    return 0;
  });
}

int bench(const BenchArguments& arguments) {
  arguments.ranks.check();
  const auto environment = detect_launch_environment();
  if (arguments.ranks.are_many() && !environment.is_launched()) {
    const auto prepared = prepare(arguments, *arguments.ranks.ranks);
    become_ranks({.ranks = *arguments.ranks.ranks,
                  .oversubscribe = arguments.ranks.oversubscribe,
                  .threads = prepared.config.device.intra_threads});
  }
  require_ranks(environment, arguments.ranks.ranks.value_or(0));
  return bench_as_rank(arguments, environment);
}

void add_plan_options(CLI::App& command, BenchPlan& plan) {
  command.add_option("--steps", plan.steps, "Steps of a trial (default: 10)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->type_name("STEPS");
  command.add_option("--warmup", plan.warmup, "Steps before the first trial (default: 5)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->type_name("STEPS");
  command.add_option("--trials", plan.trials, "Trials of each mode (default: 5)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->type_name("TRIALS");
}

}  // namespace

void add_bench_command(CLI::App& app, std::function<int()>& action) {
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App* const command =
      app.add_subcommand("bench", "Measure how fast a configuration trains, and what bounds it");
  add_config_options(*command, arguments->config);
  add_rank_options(*command, arguments->ranks,
                   "Start so many ranks on this machine (with mpirun, or srun in a Slurm job)");
  command
      ->add_option("--mode", arguments->mode,
                   "io: the loader alone; synthetic: training steps on one batch that is loaded "
                   "once; full: both; all three (default)")
      ->check(CLI::IsMember({"io", "synthetic", "full", "all"}))
      ->type_name("io|synthetic|full|all");
  add_plan_options(*command, arguments->plan);
  command->add_flag("--json", arguments->json, "Print one JSON object, with every trial");
  command->footer(
      "Nothing is written to disk, and what is trained is lost.\n\n"
      "Examples:\n"
      "  kolo bench configs/fashion_mnist.yaml -n 2\n"
      "  kolo bench configs/unet3d.yaml --config tiny -n 2 data.workers=2\n"
      "  kolo bench configs/unet3d.yaml --config short --mode synthetic --steps 3 --trials 3\n"
      "      data.mode=synthetic data.box_size=128 training.local_batch_size=2");
  command->callback([arguments, &action] { action = [arguments] { return bench(*arguments); }; });
}

}  // namespace kolo
