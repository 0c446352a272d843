#include "kolo/study/bench.h"

#include <mutex>
#include <utility>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/clock.h"
#include "kolo/base/machine.h"
#include "kolo/base/statistics.h"
#include "kolo/comm/collective_call.h"
#include "kolo/config/factories.h"
#include "kolo/data/loader.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/study/measure.h"
#include "kolo/train/observe/progress.h"
#include "kolo/train/pipelined_network.h"
#include "kolo/train/trainer.h"
#include "run/launch/terminal.h"
#include "run/pipeline_part.h"
#include "run/prepared_run.h"
#include "run/rank_job.h"
#include "run/run_device.h"
#include "run/work_part.h"

namespace kolo {

namespace {

// Parts that depend on the user's input, made and checked before any rank is started.
struct PreparedBench {
  RunConfig config;
  Datasets datasets;
  std::shared_ptr<Network> network;
  std::unique_ptr<FlatOptimizer> optimizer;
};

Datasets datasets_of(const BenchRequest& request, const RunConfig& config, std::int64_t batch,
                     bool is_root) {
  // Steps on one batch need no data, but samples of its shape.
  if (request.modes == std::vector{BenchMode::synthetic} && !request.components.datasets)
    return make_synthetic_datasets(config, batch);
  return make_datasets(config, request.components,
                       {.looks_at_files = is_root, .loads_later = true});
}

PreparedBench prepare(const BenchRequest& request, const RunConfig& config, int ranks,
                      bool is_root = true) {
  const auto replicas = replicas_of(config, ranks);
  if (request.profile && config.parallel.pipeline > 1) {
    refuse_setting(config, "parallel.pipeline",
                   "a step of a pipeline has no parts that --profile could tell apart; leave out "
                   "one of the two");
  }
  if (request.profile && config.training.virtual_ranks > 0) {
    refuse_setting(config, "training.virtual_ranks",
                   fmt::format("{}, but --profile times a step without communication, and a rank "
                               "alone has some virtual ranks' part of it only; leave out one of "
                               "the two (training.virtual_ranks=0)",
                               config.training.virtual_ranks));
  }
  if (request.profile && config.training.accumulation > 1) {
    refuse_setting(config, "training.accumulation",
                   "a step of several passes has no parts that --profile could tell apart; leave "
                   "out one of the two");
  }
  const auto batch = checked_multiply<std::int64_t>(
      batch_size_of(config.training, replicas, replica_name(config)), replicas);
  require_device(config);
  if (!wants_gpu(config.device)) require_precision(config.training.precision);
  PreparedBench prepared{config, datasets_of(request, config, batch, is_root), nullptr,
                         make_optimizer(config, request.components)};
  prepared.network =
      make_network(config, prepared.datasets.training->layout(), request.components.models);
  require_batch_norms_to_synchronize(config.model, *prepared.network);
  require_sharing(config, prepared.datasets, *prepared.network, ranks);
  require_pipeline(config, *prepared.network, ranks);
  (void)make_training_loader(config, prepared.datasets.training, 0, replicas,
                             most_replicas_of_rank(config, ranks));
  return prepared;
}

// Options of kolo train, except that numbers which stop being finite, as they may when one batch is
// trained on for long, don't stop the measurement.
TrainerOptions trainer_options(const RunConfig& config) {
  auto options = make_trainer_options(config);
  if (options.non_finite == NonFiniteStep::stop) options.non_finite = NonFiniteStep::ignore;
  return options;
}

struct Loaders {
  std::unique_ptr<Loader> training, validation;
};

// The trainer, made with the first mode that needs it.
struct Training {
  std::unique_ptr<Trainer> trainer;
  std::shared_ptr<PipelinedNetwork> pipelined;  // what it trains; null: a whole network
  std::optional<PipelineCut> cut;
};

Training make_training(const RunConfig& config, const RunComponents& components,
                       const Datasets& datasets, const Communicator& communicator,
                       const WorkPart& share, std::shared_ptr<Network> network,
                       std::unique_ptr<FlatOptimizer> optimizer, const Loaders& loaders,
                       TrainerOptions options) {
  const auto device = start_device(config.device, communicator);
  auto made = make_rank_network({config, datasets, share, communicator, device, options},
                                std::move(network), make_objective(config, components));
  const auto rate = make_learning_rate(config, share.replicas, loaders.training->batches());
  auto trainer =
      std::make_unique<Trainer>(communicator, made.trained, std::move(optimizer), rate,
                                *loaders.training, *loaders.validation, std::move(options));
  return {std::move(trainer), std::move(made.pipelined), std::move(made.cut)};
}

BenchSetup setup_of(const BenchRequest& request, const RunConfig& config, int ranks) {
  const auto& plan = request.plan;
  const auto replicas = replicas_of(config, ranks);
  const int virtual_ranks = config.training.virtual_ranks;
  const auto file = request.config.file.string();
  const auto name = request.config.name ? fmt::format("{} {}", file, *request.config.name) : file;
  return {name,
          config.model.name,
          config.data.name,
          std::string(name_of(config.training.precision)),
          ranks,
          batch_size_of(config.training, replicas),
          at::get_num_threads(),
          plan.steps,
          plan.warmup,
          plan.trials,
          virtual_ranks > 0 ? 1 : ranks / replicas,
          virtual_ranks};
}

// Mean over ranks; 0 where training was not measured together with loading.
double data_wait_of_step(const BenchReport& report) {
  std::vector<double> seconds;
  for (const auto& measurement : report.measurements)
    if (measurement.mode == BenchMode::full)
      for (const auto& trials : measurement.trials)
        for (const auto& trial : trials) seconds.push_back(trial.data_seconds);
  if (seconds.empty()) return 0;
  return mean_and_deviation(seconds).mean / static_cast<double>(report.setup.steps);
}

// Measures a step without communication and its layers, with a network and a trainer of its own.
void profile_steps(const BenchRequest& request, const RunConfig& config, const Datasets& datasets,
                   const Communicator& communicator, const WorkPart& share, const Loaders& loaders,
                   BenchReport& report) {
  auto options = trainer_options(config);
  options.reducer.communicate = false;
  options.reducer.hook = nullptr;
  options.sharded = false;  // a sharded optimizer can't do without communication
  options.graphs = false;   // a graph's parts could not be told apart
  const bool overlaps = options.reducer.overlap;
  const bool updates_by_bucket = !needs_whole_gradient(options);
  const auto sharing = options.shared_step;
  const auto& components = request.components;
  const auto network = make_network(config, datasets.training->layout(), components.models);
  const auto trainer =
      make_training(config, components, datasets, communicator, share, network,
                    make_optimizer(config, components), loaders, std::move(options))
          .trainer;
  auto profile = measure_profile(communicator, *trainer, *network, *loaders.training, request.plan);
  profile.name = config.model.name;
  profile.updates_by_bucket = updates_by_bucket;
  const auto optimizer = make_optimizer(config, components);
  if (trainer->device().is_cpu() &&
      is_worth_sharing(*optimizer, trainer->plan().total_bytes, sharing)) {
    // Parameters and states are read and written, gradients read.
    profile.shared_update_passes =
        3 + 2 * static_cast<std::int64_t>(optimizer->state_names().size());
  }
  if (!overlaps) {
    for (auto& bucket : profile.buckets) bucket.ready_seconds = profile.backward_seconds;
  }
  profile.data_wait_seconds = data_wait_of_step(report);
  report.profile = std::move(profile);
  if (trainer->device().is_cpu()) {
    report.layers = measure_layers(communicator, *trainer, *network, *loaders.training,
                                   config.training.precision, request.plan);
  }
}

// Counts the halos of this rank (messages named "halo") on the communicators that it listens to,
// and all that are split from them later. Time counts while any message is under way, from its
// submission on; so it includes waits for the other rank.
class HaloCounter final : public CollectiveListener {
 public:
  void on_submit(const CollectiveCall& call) noexcept override {
    if (!is_halo(call)) return;
    const std::lock_guard lock(mutex_);
    if (under_way_++ == 0) watch_ = {};
    if (call.collective != Collective::send) return;
    total_.bytes += static_cast<double>(call.input.bytes());
    total_.messages += 1;
  }
  void on_finish(const CollectiveCall& call, bool /*failed*/) noexcept override {
    if (!is_halo(call)) return;
    const std::lock_guard lock(mutex_);
    if (--under_way_ == 0) total_.seconds += watch_.seconds();
  }

  // Returns the halos since the last call, between exchanges, and counts anew.
  HaloUse take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(total_, {});
  }

 private:
  static bool is_halo(const CollectiveCall& call) {
    return is_transfer(call.collective) && call.name == "halo";
  }

  std::mutex mutex_;
  int under_way_ = 0;
  Stopwatch watch_;
  HaloUse total_;
};

// The plan, with a call of `forget` at the beginning and after the warm-up.
BenchPlan forgetting_warmup(const BenchPlan& plan, std::function<void()> forget) {
  auto counted = plan;
  counted.step_done = [plan, forget, done = std::int64_t{0}]() mutable {
    plan.step_done();
    if (++done == plan.warmup) forget();
  };
  forget();
  return counted;
}

// All ranks' trials, by rank. A replica's ranks draw the same samples, so each counts its share;
// virtual ranks draw their own. Collective.
std::vector<std::vector<BenchTrial>> gather(const Communicator& communicator, const WorkPart& share,
                                            const std::vector<BenchTrial>& mine) {
  std::vector<std::vector<BenchTrial>> all(static_cast<std::size_t>(communicator.size()));
  const double part = share.mesh ? static_cast<double>(share.replicas) / communicator.size() : 1.0;
  for (auto trial : mine) {
    trial.samples *= part;
    const auto of_ranks = gather_values(communicator, trial);
    for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank].push_back(of_ranks[rank]);
  }
  return all;
}

// One mode's trials, of all ranks. `halos` counts them where ranks share samples.
BenchMeasurement measure_mode(BenchMode mode, const BenchPlan& given,
                              const RunComponents& components, PreparedBench& prepared,
                              const Communicator& communicator, const WorkPart& share,
                              HaloCounter& halos, const Loaders& loaders, Training& training) {
  if (mode == BenchMode::io)
    return {mode,
            gather(communicator, share, measure_loader(communicator, *loaders.training, given))};
  if (!training.trainer)
    training = make_training(prepared.config, components, prepared.datasets, communicator, share,
                             std::move(prepared.network), std::move(prepared.optimizer), loaders,
                             trainer_options(prepared.config));
  const auto& trainer = training.trainer;
  const auto plan = forgetting_warmup(given, [&] {
    (void)halos.take();
    if (training.pipelined) (void)training.pipelined->take_idle_time();
  });
  const auto use = mode == BenchMode::synthetic ? BatchUse::first_again : BatchUse::all;
  BenchMeasurement measurement{
      mode, gather(communicator, share,
                   measure_training(communicator, *trainer, *loaders.training, plan, use))};
  if (share.shares_samples()) {
    const auto [bytes, messages, seconds] = halos.take();
    const auto steps = static_cast<double>(checked_multiply(plan.steps, plan.trials));
    measurement.halos =
        gather_values(communicator, HaloUse{bytes / steps, messages / steps, seconds / steps});
  }
  return measurement;
}

BenchReport measure_all(BenchRequest request, PreparedBench& prepared,
                        const Communicator& communicator) {
  const auto& config = prepared.config;
  const int size = communicator.size();
  auto& plan = request.plan;
  std::optional<ProgressBar> bar;
  std::int64_t steps_done = 0;
  if (communicator.rank() == 0) {
    make_bar(bar);
    plan.step_done = [&] { bar->update(++steps_done, {}); };
  }
  const auto begin = [&](const std::string& part) {
    steps_done = 0;
    if (bar) bar->start(part, plan.all_steps());
  };
  const auto halos = std::make_shared<HaloCounter>();
  communicator.add_listener(halos);  // before the ranks are split
  const auto share = part_of_work(config, communicator);
  const auto datasets = share_datasets(share, prepared.datasets);
  const Loaders loaders = {make_training_loader(config, datasets.training, share.replica,
                                                share.replicas, share.replicas_here),
                           make_validation_loader(config, datasets.validation, share.replica,
                                                  share.replicas, share.replicas_here)};
  BenchReport report{setup_of(request, config, size), {}, {}};
  report.sample_cut = sample_cut_of(config, prepared.datasets, *prepared.network);
  Training training;
  const auto& trainer = training.trainer;
  for (const BenchMode mode : request.modes) {
    begin(std::string(name_of(mode)));
    report.measurements.push_back(measure_mode(mode, plan, request.components, prepared,
                                               communicator, share, *halos, loaders, training));
    if (mode == BenchMode::io || !training.pipelined) continue;
    const auto& shape = training.cut->shape;
    report.pipeline = {shape,
                       gather_values(communicator, training.pipelined->take_idle_time().fraction()),
                       ideal_idle_fraction(shape)};
  }
  report.peak_bytes = gather_values(communicator, narrow<std::int64_t>(peak_resident_bytes()));
  const auto use = memory_use(trainer ? trainer->device() : torch::Device(torch::kCPU));
  auto uses = gather_values(communicator, use.value_or(DeviceMemoryUse{}));
  if (use) report.device_memory = std::move(uses);
  if (request.profile) {
    begin("profile");
    profile_steps(request, config, prepared.datasets, communicator, share, loaders, report);
  }
  if (bar) bar->clear();
  if (request.profile && size > 1)
    report.collectives = measure_collectives(
        communicator, trainer ? trainer->device() : start_device(config.device, communicator));
  return report;
}

}  // namespace

int bench_run(const BenchRequest& request, const std::function<void(const BenchReport&)>& done) {
  keep_freed_memory();
  const auto environment = detect_launch_environment();
  RunConfig config;
  std::optional<PreparedBench> prepared;
  RankJob job;
  job.configure = [&] {
    config = load_run_config(request.config, request.components.models);
    set_threads(config.device, environment);
    return config.communication;
  };
  job.prepare = [&](const RankPreparation& as) {
    prepared = prepare(request, config, as.ranks, as.rank == 0);
    if (as.rank == 0)
      for (const auto& warning : prepared->datasets.warnings)
        complain(fmt::format("warning: {}", warning));
    return facts_of(config, prepared->datasets);
  };
  job.load = [&](const Communicator& communicator) { load_data(communicator, prepared->datasets); };
  job.run = [&](const Communicator& communicator) {
    const auto report = once_begun([&] { return measure_all(request, *prepared, communicator); });
    if (communicator.rank() == 0) done(report);
    return 0;
  };
  return run_rank_job(environment, job);
}

RunConfig check_bench(const BenchRequest& request, int ranks) {
  auto config = load_run_config(request.config, request.components.models);
  (void)prepare(request, config, ranks);
  return config;
}

}  // namespace kolo
