#include "run/prepared_run.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/batchnorm.h>

#include "config/settle.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/config/derived_settings.h"
#include "kolo/config/factories.h"
#include "kolo/data/loader.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/sync_batch_norm.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/objective.h"
#include "kolo/train/observe/history.h"
#include "kolo/train/trainer.h"
#include "run/pipeline_part.h"
#include "run/run_device.h"
#include "run/run_lock.h"
#include "run/trained_run.h"
#include "run/work_part.h"
#include "settings/choice_reader.h"

namespace kolo {

namespace {

// First batch norm with one position per sample that trains.
std::string norm_of_one_position(Network& network, const Dataset& training) {
  const auto modules = network.named_modules();
  for (const auto& layer : summarize(network, training.layout().input_shape).layers) {
    const auto& shape = layer.output_shape;
    if (layer.kind != "batch_norm" || shape.empty()) continue;
    const auto positions =
        std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
    const auto* const module = modules.find(layer.name);
    if (positions == 1 && (module == nullptr || (*module)->is_training())) return layer.name;
  }
  return {};
}

void require_values_to_normalize(const RunConfig& config, const Dataset& training, Network& network,
                                 int ranks) {
  const auto& settings = config.training;
  const int replicas = replicas_of(config, ranks);
  // Synchronized batch norms and shared samples have more values.
  if ((config.model.sync_batch_norm && replicas > 1) || !config.parallel.spatial.empty()) return;
  const auto of_replica = divide_up(training.size(), replicas);
  const auto batch = batch_size_of(settings, replicas), rest = of_replica % batch;
  const auto smallest_pass = [&](std::int64_t size) {
    return size / std::min(size, settings.accumulation);
  };
  const bool leaves_out = settings.drop_last || config.parallel.pipeline > 1 || rest == 0;
  const bool is_last = !leaves_out && smallest_pass(rest) == 1 && smallest_pass(batch) > 1;
  if (!is_last && smallest_pass(batch) > 1) return;
  const auto norm = norm_of_one_position(network, training);
  if (norm.empty()) return;
  const auto passes = settings.accumulation > 1
                          ? fmt::format(" in {} passes", settings.accumulation)
                          : std::string();
  const auto samples =
      fmt::format("{} per {}", counted(of_replica, "sample"), replica_name(config));
  refuse_setting(
      config, settings.global_batch_size ? "training.global_batch_size" : "training.batch_size",
      is_last
          ? fmt::format(
                "{} in batches of {}{} leave a pass of 1 sample at an epoch's end, of which "
                "the batch norm {} would get one value per channel; leave that batch out "
                "(training.drop_last=true), or take another batch",
                samples, batch, passes, norm)
          : fmt::format("a batch of {}{} gives the batch norm {} one value per channel, which has "
                        "no variance; take a larger batch",
                        batch, passes, norm));
}

// Records in `run` what resuming from this checkpoint changes.
void go_on_from(const LoadedCheckpoint& loaded, PreparedRun& run, const RunOptions& options,
                int ranks) {
  require_matching_checkpoint(loaded.content, *run.network, *run.optimizer);
  run.resumed = resume_point(loaded);
  run.changes = changes_since(*run.resumed, run.config, run.models, ranks,
                              run.datasets.training->size(), run.steps_of_epoch);
  run.finished = describe_if_finished(*run.resumed, run.config, run.folder);
  if (run.finished.empty() && !options.allow_data_change) require_same_data_order(run.changes);
}

PreparedRun make_prepared(const RunConfig& config, const RunComponents& components,
                          const DataReading& reading) {
  PreparedRun run{config, {config.output_dir}, components.models};
  run.datasets = make_datasets(config, components, reading);
  run.objective = std::make_shared<Objective>(make_objective(config, components));
  run.optimizer = make_optimizer(config, components);
  run.network = make_network(config, run.datasets.training->layout(), components.models);
  return run;
}

// Freezes parameters that the forward() of a module from a file leaves out, such as those of a head
// that is used elsewhere: they get no gradients.
void freeze_unused(const RunConfig& config, PreparedRun& run) {
  if (!run.models.find(config.model.name).is_script) return;
  const auto unused =
      find_unused_parameters(*run.network, run.datasets.training->layout().input_shape);
  if (unused.empty()) return;
  at_setting(config, "model.name", [&] { run.network->freeze(unused); });
  run.datasets.warnings.push_back(fmt::format(
      "model: {} take{} no part in what the network returns, and stay{}", fmt::join(unused, ", "),
      unused.size() == 1 ? "s" : "", unused.size() == 1 ? "s as it is" : " as they are"));
}

// Largest momentum in Keras's sense of the batch norms that train; 0 without any.
double momentum_of_norms(const Network& network) {
  double most = 0;
  const auto look = [&](const auto* norm) {
    if (norm != nullptr && norm->is_training() && norm->options.track_running_stats())
      most = std::max(most, 1 - norm->options.momentum().value_or(1));
  };
  for (const auto& module : network.modules(false)) {
    look(module->as<torch::nn::BatchNorm1d>());
    look(module->as<torch::nn::BatchNorm2d>());
    look(module->as<torch::nn::BatchNorm3d>());
  }
  return most;
}

// Warns of running statistics that begin at zero and one and can't settle in the first epoch.
void warn_of_slow_statistics(const RunConfig& config, PreparedRun& run) {
  constexpr double most_kept = .1;
  const double momentum = momentum_of_norms(*run.network);
  const auto steps = static_cast<double>(run.steps_of_epoch);
  const double kept = std::pow(momentum, steps);
  if (kept <= most_kept || !config.model.init_from.empty()) return;
  const auto keys = keys_of(run.models.find(config.model.name));
  const double settling = std::floor(10 * std::pow(most_kept, 1 / steps)) / 10;
  run.datasets.warnings.push_back(fmt::format(
      "model: the batch norms of {} have a momentum of {:.4g}: after an epoch of {} steps {:.0f} % "
      "of their first running statistics are left, so validation is wrong at first; take smaller "
      "batches{}",
      config.model.name, momentum, run.steps_of_epoch, 100 * kept,
      std::ranges::find(keys, "batch_norm_momentum") == keys.end()
          ? ""
          : fmt::format(", or set model.batch_norm_momentum={:.1f}", settling)));
}

void add_settings(std::vector<RankFact>& facts, const RunConfig& config) {
  const auto places = input_paths();
  for (const auto& [key, value] : settings_of(config))
    if (std::ranges::find(places, key) == places.end()) facts.push_back({key, value});
}

void add_dataset(std::vector<RankFact>& facts, const std::string& name, const Dataset& dataset) {
  const auto& layout = dataset.layout();
  facts.push_back({fmt::format("the number of {} samples", name), std::to_string(dataset.size())});
  facts.push_back({fmt::format("the shape of {} samples", name),
                   fmt::format("[{}]", fmt::join(layout.input_shape, ", "))});
  facts.push_back({fmt::format("the shape of {} targets", name),
                   fmt::format("[{}]", fmt::join(layout.target_shape, ", "))});
  facts.push_back({fmt::format("the shapes of the arrays of {} samples", name),
                   fmt::format("[{}], [{}]", fmt::join(layout.input_shapes, ", "),
                               fmt::join(layout.target_shapes, ", "))});
  facts.push_back(
      {fmt::format("the number of classes of {} data", name), std::to_string(layout.classes)});
}

// Refuses what the new run reads in an earlier run's folder.
void require_inputs_elsewhere(const PreparedRun& run) {
  const auto reason = [&](const std::string& path) {
    return fmt::format(
        "{} is in the output folder {}, which holds an earlier run and would be "
        "moved aside; choose another folder with --output DIR, or move that run "
        "yourself",
        path, run.folder.path.string());
  };
  const auto keys = input_paths();
  for (const auto& [key, path] : settings_of(run.config)) {
    if (std::ranges::find(keys, key) != keys.end() && would_be_moved(path, run.folder))
      refuse_setting(run.config, key, reason(path));
  }
  if (run.resumed && would_be_moved(run.resumed->checkpoint, run.folder))
    throw InputError(fmt::format("--resume: {}", reason(run.resumed->checkpoint)));
}

}  // namespace

bool would_be_moved(const std::filesystem::path& path, const RunFolder& folder) {
  if (path.empty() || !folder.holds_own_names()) return false;
  std::error_code error;
  for (const auto& way : {std::filesystem::absolute(path, error).lexically_normal(),
                          std::filesystem::weakly_canonical(path, error)}) {
    for (auto outer = way; outer.has_relative_path(); outer = outer.parent_path())
      if (std::filesystem::equivalent(outer, folder.path, error)) return true;
  }
  return false;
}

Datasets make_datasets(const RunConfig& config, const RunComponents& components,
                       const DataReading& reading) {
  return components.datasets ? components.datasets(config, reading)
                             : make_datasets(config, reading);
}

Objective make_objective(const RunConfig& config, const RunComponents& components) {
  return components.objective ? components.objective(config) : make_objective(config);
}

std::unique_ptr<FlatOptimizer> make_optimizer(const RunConfig& config,
                                              const RunComponents& components) {
  return components.optimizer ? components.optimizer(config)
                              : make_optimizer(config, components.models);
}

std::vector<std::string> own_components(const RunComponents& components) {
  std::vector<std::string> own;
  const auto& built_in = built_in_model_entries();
  for (const auto& entry : components.models.entries())
    if (std::ranges::find(built_in, entry.name, &ModelEntry::name) == built_in.end())
      own.push_back("network " + entry.name);
  if (components.datasets) own.emplace_back("data");
  if (components.objective) own.emplace_back("loss");
  return own;
}

std::shared_ptr<LoadedCheckpoint> load_resumed(PreparedRun& run, const RunOptions& options,
                                               int ranks, std::vector<std::string>& warnings) {
  const auto warn = [&](const std::string& warning) { warnings.push_back(warning); };
  auto loaded = std::make_shared<LoadedCheckpoint>(
      load_chosen(run.folder, *options.resume, warn, CheckpointReading::whole));
  if (loaded->path != run.resumed->checkpoint) go_on_from(*loaded, run, options, ranks);
  return loaded;
}

void require_batch_norms_to_synchronize(const ModelConfig& config, torch::nn::Module& network) {
  if (!config.sync_batch_norm) return;
  const auto held = batch_norms_held_by_type(network);
  if (held.empty()) return;
  throw InputError(fmt::format(
      "model.sync_batch_norm: {} in model {} can't be replaced, because a member of a module keeps "
      "its type; leave it false, or put them into a torch::nn::Sequential",
      fmt::join(held, ", "), config.name));
}

PreparedRun prepare_run(const RunConfig& config, const RunComponents& components,
                        const RunOptions& options, int ranks, bool is_root) {
  // Before any data is read.
  if (options.stop_after_epochs && !config.checkpoint.saves()) {
    refuse_setting(config, "checkpoint.every_epochs",
                   "0, so that there are no checkpoints, but a run that stops after some of its "
                   "epochs (--stop-after-epochs) goes on from its checkpoint; leave one of them "
                   "out");
  }
  const auto replicas = replicas_of(config, ranks);
  (void)batch_size_of(config.training, replicas, replica_name(config));
  require_device(config);
  if (!wants_gpu(config.device))
    at_setting(config, "training.precision", [&] { require_precision(config.training.precision); });
  // A launcher that holds the run's lock has looked at the files already.
  const bool looks = is_root && !environment_variable(RunLock::variable);
  PreparedRun run =
      make_prepared(config, components, {.looks_at_files = looks, .loads_later = true});
  require_batch_norms_to_synchronize(config.model, *run.network);
  freeze_unused(config, run);
  require_values_to_normalize(config, *run.datasets.training, *run.network, ranks);
  require_sharing(config, run.datasets, *run.network, ranks);
  require_pipeline(config, *run.network, ranks);
  const auto here = most_replicas_of_rank(config, ranks);
  run.steps_of_epoch =
      make_training_loader(config, run.datasets.training, 0, replicas, here)->batches();
  (void)make_validation_loader(config, run.datasets.validation, 0, replicas, here);
  if (!options.resume) warn_of_slow_statistics(config, run);
  if (!is_root) return run;
  run.folder.require_writable();
  // The checkpoints of a run that will be moved aside don't matter.
  const bool stays = options.resume || !run.folder.holds_own_names();
  if (stays) run.folder.require_no_folders_as_files();
  if (stays && config.checkpoint.saves()) run.folder.require_writable_checkpoints();
  if (!options.resume) {
    if (!config.model.init_from.empty()) require_initial_weights(config, *run.network);
    return run;
  }
  // A run that is still writing its checkpoints must not be judged by them.
  if (!environment_variable(RunLock::variable)) RunLock::require_free(run.folder);
  // Reads headers only: the training reads the tensors. A finished run won't, so it is checked.
  for (const auto reading : {CheckpointReading::headers, CheckpointReading::checked}) {
    const auto silent = [](const std::string&) {};
    go_on_from(load_chosen(run.folder, *options.resume, silent, reading), run, options, ranks);
    if (run.finished.empty()) break;
  }
  // Refuses a damaged history before anything of the folder has changed.
  const bool continues = !run.starts_anew() && run.finished.empty();
  if (continues && std::filesystem::exists(run.folder.history()))
    (void)History::read(run.folder.history());
  return run;
}

PreparedRun prepare_training(const RunConfig& config, const RunComponents& components,
                             const RunOptions& options, int ranks, bool is_root) {
  auto run = prepare_run(config, components, options, ranks, is_root);
  if (is_root && run.starts_anew()) {
    const auto study = run.folder.holds_a_run() ? "" : describe_study_in(run.folder.path);
    if (!study.empty()) {
      throw InputError(fmt::format("output folder {} is {}; choose another with --output DIR",
                                   run.folder.path.string(), study));
    }
    run.folder.require_replaceable();
    require_inputs_elsewhere(run);
  }
  // Removes locks of a run that was killed at its very end.
  if (is_root && !run.finished.empty()) (void)RunLock::of_launcher(run.folder, false);
  return run;
}

std::vector<RankFact> facts_of(const RunConfig& config, const Datasets& datasets) {
  std::vector<RankFact> facts = {{"kolo's version", KOLO_VERSION},
                                 {"LibTorch's version", libtorch_facts().version}};
  add_settings(facts, config);
  add_dataset(facts, "training", *datasets.training);
  add_dataset(facts, "validation", *datasets.validation);
  facts.push_back({"the classes' names", join(datasets.class_names)});
  for (const auto& load : datasets.loads)
    facts.push_back({"the bytes of data to keep in memory", std::to_string(load.bytes)});
  return facts;
}

}  // namespace kolo
