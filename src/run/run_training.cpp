#include "run/run_training.h"

#include <cstdint>
#include <iostream>
#include <ostream>
#include <span>
#include <utility>

#include "kolo/base/file.h"
#include "kolo/config/factories.h"
#include "kolo/data/loader.h"
#include "kolo/nn/models.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/timeline.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/objective.h"
#include "kolo/train/trainer.h"
#include "run/pipeline_part.h"
#include "run/rank_job.h"
#include "run/resume.h"
#include "run/run_device.h"
#include "run/run_report.h"
#include "run/work_part.h"

namespace kolo {

namespace {

// Tells all ranks whether rank 0 has found anything left to do. Collective.
bool has_work(const Communicator& communicator, const PreparedRun& run) {
  std::int32_t answer = run.finished.empty() ? 1 : 0;
  communicator.broadcast(std::span(&answer, 1), 0, {.name = "what is left to do"});
  return answer != 0;
}

// Findings of rank 0 before anything is written; empty on the others.
struct RunStart {
  std::optional<RunLock> lock;
  std::shared_ptr<LoadedCheckpoint> from;  // checkpoint that the run resumes from
  std::vector<std::string> warnings;
};

void start_folder(const PreparedRun& run, const RunLock& lock, RunContext& context,
                  std::int64_t from_step, int nodes) {
  console_of(context.options) << lock.describe_move();
  run.folder.remove_leftovers();
  write_file_atomically(run.folder.config(), to_yaml(run.config));
  context.origin.machine = describe_machine(run.config.device, nodes);
  note_run_start(run.folder.origin(), context.origin, from_step, run.datasets.class_names,
                 run.datasets.training->layout());
  run.folder.remove_timelines_of_ranks();  // of what is resumed
}

// Collective.
Timeline start_timeline(const Communicator& communicator, const RunFolder& folder,
                        const RunOptions& options) {
  if (!options.timeline) return Timeline::from_environment(communicator);
  Timeline timeline(communicator, folder.timelines_of_ranks());
  timeline.start();
  return timeline;
}

// Collective. `log`: of rank 0.
void finish_timeline(const Timeline& timeline, const Communicator& communicator,
                     const RunFolder& folder, const RunContext& context, RunLog* log) {
  timeline.stop();
  if (context.options.timeline) communicator.barrier();
  if (log == nullptr) return;
  if (const auto problem = timeline.problem(); !problem.empty()) log->warn("{}", problem);
  if (!context.options.timeline) return;
  (void)merge_timelines(folder.timelines_of_ranks(), folder.timeline());
  log->info("timeline in {}: open it in chrome://tracing or https://ui.perfetto.dev",
            folder.timeline().string());
}

// Does a rank's part of a run, from its loaders to its end. Returns the exit status. Collective.
int train(PreparedRun& run, RunStart& start, const Communicator& communicator,
          RunContext& context) {
  const auto& config = run.config;
  const auto& options = context.options;
  const bool is_root = communicator.rank() == 0;
  const auto share = part_of_work(config, communicator);
  const auto datasets = share_datasets(share, run.datasets);
  const auto training = make_training_loader(config, datasets.training, share.replica,
                                             share.replicas, share.replicas_here);
  std::optional<RunRecords> records;  // of rank 0
  if (is_root) {
    start_folder(run, *start.lock, context, start.from ? start.from->step : 0,
                 communicator.topology().nodes);
    records.emplace(config, run.folder, context, communicator.size(), training->batches(),
                    start.from ? std::optional(resume_point(*start.from)) : std::nullopt);
    log_run_start(records->log(), context.origin);
    for (const auto& warning : start.warnings) records->log().warn("{}", warning);
  }
  RunLog* const log = is_root ? &records->log() : nullptr;
  const auto validation = make_validation_loader(config, datasets.validation, share.replica,
                                                 share.replicas, share.replicas_here);
  const auto rate = make_learning_rate(config, share.replicas, training->batches());
  const auto timeline = start_timeline(communicator, run.folder, options);
  const auto device = start_device(config.device, communicator);
  if (!options.resume && !config.model.init_from.empty())
    load_initial_weights(config, communicator, *run.network, log);

  std::optional<ModelSummary> summary;  // of rank 0
  if (is_root) summary = summarize(*run.network, run.datasets.training->layout().input_shape);
  const auto share_text = describe_sharing(config, run.datasets, *run.network, communicator.size());
  auto settings = make_trainer_options(config);
  settings.made_with = made_with_here();
  settings.stop_requested = [&stopping = context.stopping] { return stopping.is_requested(); };
  settings.stop_after_epochs = options.stop_after_epochs;
  settings.stop_validation_requested = settings.stop_requested;
  settings.timeline = timeline;
  const auto network =
      make_rank_network({config, run.datasets, share, communicator, device, settings},
                        std::exchange(run.network, nullptr), *run.objective);
  Trainer trainer(communicator, network.trained, std::move(run.optimizer), rate, *training,
                  *validation, std::move(settings));
  std::optional<RunCheckpoints> checkpoints;
  if (config.checkpoint.saves())
    checkpoints.emplace(config, run.folder, share, communicator, trainer);
  if (is_root) {
    log_set_up(*log, run, communicator, trainer, rate, *summary);
    for (const auto& line : share_text.lines) log->info("{}", line);
    log_pipeline(*log, run, network.cut, communicator.size());
    for (const auto& warning : share_text.warnings) log->warn("{}", warning);
    log_model(*log, run, *summary);
    if (start.from) log_resume(*log, run, *start.from);
    records->attach_to(trainer, *start.lock);
  }
  if (checkpoints) {
    checkpoints->attach_to(trainer, is_root ? records->of_checkpoints(*start.lock, context.stopping)
                                            : CheckpointHooks());
  }
  if (is_root) {
    if (checkpoints && !checkpoints->describe().empty()) log->debug("{}", checkpoints->describe());
    if (auto* const time = context.stopping.time(); time != nullptr && checkpoints) {
      // An estimate where ranks have parts of the network.
      time->expect_checkpoints(trainer.checkpoint_bytes() *
                               static_cast<std::uint64_t>(config.parallel.pipeline));
    }
    for (auto* const observer : context.observers) trainer.add_observer(*observer);
  }

  if (options.resume)
    trainer.restore(start.from ? std::optional(std::move(start.from->content)) : std::nullopt);
  const auto outcome = trainer.run();
  if (is_root) records->flush();  // with the last checkpoint
  finish_timeline(timeline, communicator, run.folder, context, log);
  const bool is_stopped = outcome == TrainOutcome::stopped;
  if (is_root && is_stopped) {
    log_stop(*log, run, context, trainer.state());
  } else if (is_root) {
    if (run.models.find(config.model.name).is_script)
      save_torchscript(*network.whole, run.folder.path / torchscript_file);
    log_summary(*log, run, records->recorder(), trainer.state(), device);
  }
  return is_stopped ? exit_stopped : 0;
}

}  // namespace

std::ostream& console_of(const RunOptions& options) {
  return options.console == nullptr ? std::cout : *options.console;
}

int run_training(PreparedRun& run, const Communicator& communicator, RunContext& context) {
  const auto& options = context.options;
  const bool is_root = communicator.rank() == 0;
  if (!has_work(communicator, run)) {
    if (is_root) console_of(options) << run.finished << std::endl;
    return 0;
  }
  RunStart start;
  if (is_root) {
    start.lock = RunLock::of_rank_0(run.folder, run.starts_anew());
    if (options.resume)
      start.from = load_resumed(run, options, communicator.size(), start.warnings);
  }
  // Up to here a signal ends the process at once, also while it waits for the folder.
  context.stopping.begin();
  return once_begun([&] {
    try {
      return train(run, start, communicator, context);
    } catch (const std::exception&) {
      // A folder that was taken away explains any file that could not be written.
      if (start.lock) start.lock->require_held();
      throw;
    }
  });
}

}  // namespace kolo
