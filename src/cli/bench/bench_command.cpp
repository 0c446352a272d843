#include <csignal>
#include <iostream>

#include <fmt/format.h>

#include "cli/bench/bench_progress.h"
#include "cli/bench/measure.h"
#include "cli/bench/measure_model.h"
#include "cli/commands.h"
#include "cli/option_values.h"
#include "cli/shared_options.h"
#include "kolo/base/allocator.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/config/factories.h"
#include "kolo/launch/launch_environment.h"
#include "kolo/launch/launch_ranks.h"
#include "kolo/observe/memory.h"
#include "launch/terminal.h"
#include "run/rank_guard.h"
#include "run/rank_job.h"
#include "run/rank_setup.h"
#include "run/run_facts.h"

namespace kolo {

namespace {

struct BenchArguments {
  ConfigOptions config;
  RankOptions ranks;
  std::string mode = "all";
  BenchPlan plan;
  bool profile = false;
  bool collectives = false;
  bool json = false;
};

// What can be wrong on the user's side, made and checked before any rank is started.
struct PreparedBench {
  RunConfig config;
  Datasets datasets;
  std::shared_ptr<Network> network;
  std::unique_ptr<FlatOptimizer> optimizer;
};

// Steps on one batch need no data, but samples of its shape.
Datasets datasets_of(const BenchArguments& arguments, const RunConfig& config, std::int64_t batch) {
  return arguments.mode == "synthetic" ? make_synthetic_datasets(config, batch)
                                       : make_datasets(config);
}

PreparedBench prepare(const BenchArguments& arguments, const RunConfig& config, int ranks) {
  const auto batch = checked_multiply<std::int64_t>(batch_size_of(config.training, ranks), ranks);
  require_precision(config.training.precision);
  PreparedBench prepared{config, datasets_of(arguments, config, batch), nullptr,
                         make_optimizer(config)};
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
TrainerOptions trainer_options(const RunConfig& config) {
  auto options = make_trainer_options(config);
  if (options.non_finite == NonFiniteStep::stop) options.non_finite = NonFiniteStep::ignore;
  return options;
}

struct Loaders {
  std::unique_ptr<Loader> training, validation;
};

std::unique_ptr<Trainer> make_trainer(const RunConfig& config, const Communicator& communicator,
                                      std::shared_ptr<Network> network,
                                      std::unique_ptr<FlatOptimizer> optimizer,
                                      const Loaders& loaders, TrainerOptions options) {
  return std::make_unique<Trainer>(
      communicator, std::move(network), make_objective(config), std::move(optimizer),
      make_learning_rate(config, communicator.size(), loaders.training->batches()),
      *loaders.training, *loaders.validation, std::move(options));
}

std::vector<std::int64_t> gather_memory(const Communicator& communicator) {
  const auto mine = narrow<std::int64_t>(peak_resident_bytes());
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&mine, 1), std::span(all));
  return all;
}

BenchSetup setup_of(const BenchArguments& arguments, const RunConfig& config, int ranks) {
  const auto& plan = arguments.plan;
  const auto& [file, chosen, settings] = arguments.config;
  const auto name = chosen.empty() ? file.string() : fmt::format("{} {}", file.string(), chosen);
  return {name,
          config.model.name,
          config.data.name,
          std::string(name_of(config.training.precision)),
          ranks,
          batch_size_of(config.training, ranks),
          at::get_num_threads(),
          plan.steps,
          plan.warmup,
          plan.trials};
}

// Mean over ranks; 0 where training was not measured together with loading.
double data_wait_of_step(const BenchReport& report) {
  double seconds = 0, steps = 0;
  for (const auto& measurement : report.measurements) {
    if (measurement.mode != BenchMode::full) continue;
    for (const auto& trials : measurement.trials) {
      for (const auto& trial : trials) {
        seconds += trial.data_seconds;
        steps += static_cast<double>(report.setup.steps);
      }
    }
  }
  return steps > 0 ? seconds / steps : 0;
}

// By a network and a trainer of its own, which are gone afterwards.
StepProfile profile_steps(const BenchArguments& arguments, const RunConfig& config,
                          const Datasets& datasets, const Communicator& communicator,
                          const Loaders& loaders) {
  auto options = trainer_options(config);
  options.reducer.communicate = false;
  const bool overlaps = options.reducer.overlap;
  const bool updates_by_bucket =
      options.maximum_norm <= 0 && !options.loss_scale && options.non_finite != NonFiniteStep::skip;
  const auto sharing = options.step_sharing;
  const auto network = make_network(config, datasets.training->layout());
  const auto trainer = make_trainer(config, communicator, network, make_optimizer(config), loaders,
                                    std::move(options));
  auto profile =
      measure_profile(communicator, *trainer, *network, *loaders.training, arguments.plan);
  profile.name = config.model.name;
  profile.updates_by_bucket = updates_by_bucket;
  const auto optimizer = make_optimizer(config);
  if (is_worth_sharing(*optimizer, trainer->plan().total_bytes, sharing)) {
    // Parameters and states are read and written, gradients read.
    profile.shared_update_passes =
        3 + 2 * static_cast<std::int64_t>(optimizer->state_names().size());
  }
  if (!overlaps) {
    for (auto& bucket : profile.buckets) bucket.ready_seconds = profile.backward_seconds;
  }
  return profile;
}

BenchReport measure_all(BenchArguments arguments, PreparedBench& prepared,
                        const Communicator& communicator) {
  const auto& config = prepared.config;
  const int rank = communicator.rank(), size = communicator.size();
  BenchProgress progress(rank == 0);
  arguments.plan.step_done = progress.step_done();
  const auto& plan = arguments.plan;
  const Loaders loaders = {
      make_training_loader(config, prepared.datasets.training, rank, size),
      make_validation_loader(config, prepared.datasets.validation, rank, size)};
  BenchReport report{setup_of(arguments, config, size), {}, {}};
  std::unique_ptr<Trainer> trainer;
  for (const BenchMode mode : modes_of(arguments.mode)) {
    std::vector<BenchTrial> mine;
    progress.start(std::string(bench_mode_name(mode)), plan.all_steps());
    if (mode == BenchMode::io) {
      mine = measure_loader(communicator, *loaders.training, plan);
    } else {
      if (!trainer) {
        trainer = make_trainer(config, communicator, prepared.network,
                               std::move(prepared.optimizer), loaders, trainer_options(config));
      }
      mine = mode == BenchMode::synthetic
                 ? measure_steps(communicator, *trainer, *loaders.training, plan)
                 : measure_training(communicator, *trainer, *loaders.training, plan);
    }
    report.measurements.push_back({mode, gather(communicator, mine)});
  }
  report.peak_bytes = gather_memory(communicator);
  if (arguments.profile) {
    progress.start("profile", plan.all_steps());
    report.profile = profile_steps(arguments, config, prepared.datasets, communicator, loaders);
    report.profile->data_wait_seconds = data_wait_of_step(report);
  }
  progress.finish();
  if (arguments.collectives && size > 1) report.collectives = measure_collectives(communicator);
  return report;
}

void print(const BenchArguments& arguments, const BenchReport& report) {
  if (arguments.json)
    std::cout << to_json(report).dump() << std::endl;
  else
    print_wrapped(to_text(report));
}

int bench_as_rank(const BenchArguments& arguments, const LaunchEnvironment& environment) {
  keep_freed_memory();
  RunConfig config;
  std::optional<PreparedBench> prepared;
  RankJob job;
  job.configure = [&] {
    config = load_run_config(arguments.config.source());
    set_threads(config.device, environment);
    return config.communication;
  };
  job.prepare = [&](int rank, int ranks) {
    prepared = prepare(arguments, config, ranks);
    if (rank == 0) {
      for (const auto& warning : prepared->datasets.warnings)
        std::cerr << fmt::format("kolo: warning: {}", warning) << std::endl;
    }
    return facts_of(config, prepared->datasets);
  };
  job.run = [&](const Communicator& communicator) {
    const auto report = once_begun([&] { return measure_all(arguments, *prepared, communicator); });
    if (communicator.rank() == 0) print(arguments, report);
    return 0;
  };
  return run_rank_job(environment, job);
}

int bench(const BenchArguments& arguments) {
  const auto environment = detect_launch_environment();
  if (arguments.ranks.are_many() && !environment.is_launched()) {
    const auto config = load_run_config(arguments.config.source());
    (void)prepare(arguments, config, *arguments.ranks.ranks);
    return run_ranks({.ranks = *arguments.ranks.ranks,
                      .oversubscribe = arguments.ranks.oversubscribe,
                      .threads = config.device.intra_threads},
                     {.stop = {.signal = SIGTERM, .message = "the ranks are ended"}});
  }
  require_ranks(environment, arguments.ranks.ranks.value_or(0));
  return bench_as_rank(arguments, environment);
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

void add_bench_command(CLI::App& app, std::function<int()>& action) {
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App* const command =
      app.add_subcommand("bench", "Measure how fast a configuration trains, and what bounds it");
  add_config_options(*command, arguments->config);
  add_rank_options(*command, arguments->ranks,
                   "Start so many ranks on this machine (with mpirun, or srun in a Slurm job)");
  add_choice_option(*command, "--mode", arguments->mode, {"io", "synthetic", "full", "all"},
                    "io: the loader alone; synthetic: training steps on one batch of random "
                    "numbers, for which no data is needed; full: both; all three (default)");
  add_plan_options(*command, arguments->plan);
  command->add_flag("--profile", arguments->profile,
                    "Also the parts of a step without communication, and when each bucket of "
                    "gradients is ready");
  command->add_flag("--collectives", arguments->collectives,
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
  command->callback([arguments, &action] { action = [arguments] { return bench(*arguments); }; });
}

}  // namespace kolo
