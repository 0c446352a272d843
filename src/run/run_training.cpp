#include "run/run_training.h"

#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/at_setting.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/launch/launch_environment.h"
#include "kolo/nn/torchscript.h"
#include "kolo/parallel/sync_batch_norm.h"
#include "kolo/parallel/timeline.h"
#include "run/rank_guard.h"
#include "run/resume.h"
#include "run/run_lock.h"
#include "run/run_records.h"

namespace kolo {

namespace {

void start_folder(const PreparedRun& run, const RunLock& lock, const RunContext& context) {
  if (lock.moved())
    console_of(context.options) << fmt::format("{} held an earlier run; it is now {}\n",
                                               run.folder.path.string(), lock.moved()->string());
  run.folder.remove_leftovers();
  const bool goes_on = !run.starts_anew() && std::filesystem::exists(run.folder.config());
  if (goes_on && !run.changes.settings.empty()) (void)run.folder.keep_config();
  write_file_atomically(run.folder.config(), to_yaml(run.config));
  note_run_start(run.folder.origin(), context.origin);
  run.folder.remove_timelines_of_ranks();  // of what is resumed
}

// What it comes to, for the run, to go on from this checkpoint.
void go_on_from(const CheckpointStore::Loaded& loaded, PreparedRun& run, const RunOptions& options,
                int ranks) {
  require_matching_checkpoint(loaded.content, *run.network, *run.optimizer);
  run.resumed = resume_point(loaded);
  run.changes = changes_since(*run.resumed, run.config, ranks, run.datasets.training->size(),
                              run.steps_of_epoch);
  run.finished = describe_if_finished(*run.resumed, run.config, run.folder);
  if (run.finished.empty() && !options.allow_data_change) require_same_data_order(run.changes);
}

// The whole checkpoint, which is another one than was chosen by its headers where that turns out to
// be damaged.
CheckpointStore::Loaded load_resumed(PreparedRun& run, const RunOptions& options, int ranks,
                                     std::vector<std::string>& warnings) {
  auto loaded = load_chosen(run.folder, *options.resume,
                            [&](const std::string& warning) { warnings.push_back(warning); });
  if (loaded.path != run.resumed->checkpoint) go_on_from(loaded, run, options, ranks);
  return loaded;
}

// Collective.
Timeline start_timeline(const Communicator& communicator, const RunFolder& folder,
                        const RunOptions& options) {
  if (!options.timeline) return Timeline::from_environment(communicator);
  Timeline timeline(communicator, {.folder = folder.timelines_of_ranks()});
  timeline.start();
  return timeline;
}

// Collective. `log`: of rank 0.
void finish_timeline(const Timeline& timeline, const Communicator& communicator,
                     const RunFolder& folder, const RunOptions& options, RunLog* log) {
  timeline.stop();
  if (options.timeline) communicator.barrier();
  if (log == nullptr) return;
  if (const auto problem = timeline.problem(); !problem.empty()) log->warn("{}", problem);
  if (!options.timeline) return;
  merge_timelines(folder.timelines_of_ranks(), folder.timeline());
  log->info("timeline in {}: open it in chrome://tracing or https://ui.perfetto.dev",
            folder.timeline().string());
}

// With the program's parts, or else as the configuration says.
PreparedRun make_parts(const RunConfig& config, const RunParts& parts, bool looks_at_files) {
  PreparedRun run{config, {config.output_dir}};
  run.datasets = parts.datasets ? parts.datasets(config, looks_at_files)
                                : make_datasets(config, looks_at_files);
  run.objective = parts.objective ? parts.objective(config) : make_objective(config);
  run.optimizer = parts.optimizer ? parts.optimizer(config) : make_optimizer(config, parts.models);
  run.network = make_network(config, run.datasets.training->layout(), parts.models);
  return run;
}

// Whether anything is left to do, as rank 0 has found. Collective.
bool has_work(const Communicator& communicator, const PreparedRun& run) {
  std::int32_t answer = run.finished.empty() ? 1 : 0;
  communicator.broadcast(std::span(&answer, 1), 0, {.name = "what is left to do"});
  return answer != 0;
}

// What rank 0 has before anything is written.
struct RunStart {
  std::optional<RunLock> lock;
  std::optional<CheckpointStore::Loaded> from;  // where the run goes on
  std::vector<std::string> warnings;
};

// The exit status. Collective.
int train_in_folder(PreparedRun& run, RunStart start, const Communicator& communicator,
                    const RunContext& context) {
  const auto& config = run.config;
  const auto& options = context.options;
  const bool is_root = communicator.rank() == 0;
  const auto training =
      make_training_loader(config, run.datasets.training, communicator.rank(), communicator.size());
  auto& resumed = start.from;
  std::optional<RunRecords> records;
  if (is_root) {
    start_folder(run, *start.lock, context);
    records.emplace(config, run.folder, context, communicator.size(), training->batches(),
                    resumed ? std::optional(resume_point(*resumed)) : std::nullopt);
    log_run_start(records->log(), context.origin);
    for (const auto& warning : start.warnings) records->log().warn("{}", warning);
  }
  const auto validation = make_validation_loader(config, run.datasets.validation,
                                                 communicator.rank(), communicator.size());
  const auto rate = make_learning_rate(config, communicator.size(), training->batches());
  auto trainer_options = make_trainer_options(config);
  trainer_options.stop_requested = context.stop_requested;
  trainer_options.stop_validation_requested = trainer_options.stop_requested;
  const auto timeline = start_timeline(communicator, run.folder, options);
  trainer_options.timeline = timeline;
  if (config.model.sync_batch_norm && communicator.size() > 1)
    convert_sync_batch_norm(communicator, *run.network);
  Trainer trainer(communicator, run.network, run.objective, std::move(run.optimizer), rate,
                  *training, *validation, trainer_options);
  if (is_root) {
    log_set_up(records->log(), run, communicator, trainer, rate);
    log_model(records->log(), run, options);
    records->attach_to(trainer, config.checkpoint, *start.lock);
    for (auto* const observer : context.observers) trainer.add_observer(*observer);
    if (resumed) log_resume(records->log(), run, *resumed);
  }
  if (options.resume)
    trainer.restore(resumed ? std::optional(std::move(resumed->content)) : std::nullopt);

  const auto outcome = trainer.run();
  finish_timeline(timeline, communicator, run.folder, options, is_root ? &records->log() : nullptr);
  if (outcome == TrainOutcome::stopped) {
    if (is_root) log_stop(records->log(), run, context.stopped_by(), trainer.state());
    return exit_stopped;
  }
  if (is_root) {
    if (config.model.name == torchscript_model)
      save_torchscript(*run.network, run.folder.path / torchscript_file);
    log_summary(records->log(), run, *records, trainer.state());
  }
  return 0;
}

}  // namespace

void require_batch_norms_to_synchronize(const ModelConfig& config, torch::nn::Module& network) {
  if (!config.sync_batch_norm) return;
  const auto held = batch_norms_held_by_type(network);
  if (held.empty()) return;
  throw InputError(fmt::format(
      "model.sync_batch_norm: {} in model {} can't be replaced, because a member of a module keeps "
      "its type; leave it false, or put them into a torch::nn::Sequential",
      fmt::join(held, ", "), config.name));
}

std::ostream& console_of(const RunOptions& options) {
  return options.console == nullptr ? std::cout : *options.console;
}

PreparedRun prepare_run(const RunConfig& config, const RunParts& parts, const RunOptions& options,
                        int ranks, bool is_root) {
  // Before any data is read.
  (void)batch_size_of(config.training, ranks);
  at_setting(config, "training.precision",
             [&] { require_precision(config.training.precision); });
  PreparedRun run = make_parts(config, parts, is_root);
  require_batch_norms_to_synchronize(config.model, *run.network);
  run.steps_of_epoch = make_training_loader(config, run.datasets.training, 0, ranks)->batches();
  (void)make_validation_loader(config, run.datasets.validation, 0, ranks);
  if (!is_root) return run;
  run.folder.require_writable();
  if (!options.resume) return run;
  // What is there is not to be judged while a run is still making it.
  if (!environment_variable(RunLock::variable)) RunLock::require_free(run.folder);
  // The tensors are read when the training begins; unless nothing will be.
  for (const auto reading : {CheckpointReading::headers, CheckpointReading::checked}) {
    const auto silent = [](const std::string&) {};
    go_on_from(load_chosen(run.folder, *options.resume, silent, reading), run, options, ranks);
    if (run.finished.empty()) break;
  }
  return run;
}

PreparedRun prepare_training(const RunConfig& config, const RunParts& parts,
                             const RunOptions& options, int ranks, bool is_root) {
  auto run = prepare_run(config, parts, options, ranks, is_root);
  if (is_root && run.starts_anew()) run.folder.require_replaceable();
  return run;
}

int run_training(PreparedRun run, const Communicator& communicator, const RunContext& context) {
  const auto& options = context.options;
  const bool is_root = communicator.rank() == 0;
  if (!has_work(communicator, run)) {
    if (is_root) console_of(context.options) << run.finished << std::endl;
    return 0;
  }
  RunStart start;
  if (is_root) {
    start.lock = RunLock::of_rank_0(run.folder, run.starts_anew());
    if (options.resume)
      start.from = load_resumed(run, options, communicator.size(), start.warnings);
  }
  return once_begun([&] { return train_in_folder(run, std::move(start), communicator, context); });
}

}  // namespace kolo
