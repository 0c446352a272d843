#include "run/run_training.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/machine.h"
#include "kolo/checkpoint/checkpoint_store.h"
#include "kolo/comm/communicator.h"
#include "kolo/launch/launch_environment.h"
#include "kolo/nn/convolution.h"
#include "kolo/nn/models.h"
#include "kolo/nn/network.h"
#include "kolo/observe/format.h"
#include "kolo/optim/catalogue.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/timeline.h"
#include "kolo/train/recorders.h"
#include "kolo/train/trainer.h"
#include "run/initial_weights.h"
#include "run/kernel_cache.h"
#include "run/made_with.h"
#include "run/rank_guard.h"
#include "run/rank_network.h"
#include "run/resume.h"
#include "run/run_checkpoints.h"
#include "run/run_copies.h"
#include "run/run_device.h"
#include "run/run_folder.h"
#include "run/run_lock.h"
#include "run/run_start.h"
#include "run/work_share.h"

namespace kolo {

namespace {

History earlier_history(const RunFolder& folder, int ranks,
                        const std::optional<ResumePoint>& resumed) {
  if (!resumed || !std::filesystem::exists(folder.history())) return History(ranks);
  History history = History::read(folder.history());
  history.drop_after(resumed->step, resumed->epoch);
  return history;
}

// A run ends with its epochs or with its steps, whichever comes first.
std::int64_t record_interval(const TrainingConfig& config, std::int64_t steps_of_epoch) {
  const auto by_epochs = thin_record_interval(config.n_epochs, steps_of_epoch);
  const auto by_steps = config.max_steps ? thin_record_interval(1, *config.max_steps) : by_epochs;
  return config.log_every.value_or(std::min(by_epochs, by_steps));
}

// "started by Slurm's srun in Slurm job 12: rank 0 of 4, local rank 0 of 2 on node 1 of 2 (n1)".
// The scripts in submit/ look for the job here.
void log_start(RunLog& log, const Topology& topology) {
  const auto environment = detect_launch_environment();
  const auto job = describe_job();
  if (!environment.is_launched() && job.empty()) return;
  log.info("started{}{}: {} ({})",
           environment.is_launched() ? fmt::format(" by {}", environment.launcher) : "",
           job.empty() ? "" : fmt::format(" in {}", job), topology.describe(), host_name());
}

constexpr std::size_t most_lines = 40;  // of a summary on the console, unless asked for more

// What only rank 0 has: the files and the console of a run, and the observers that write to them.
class RunRecords {
 public:
  // `steps`: of an epoch. `resumed`: where the folder's run goes on from; what is recorded beyond
  // it is dropped.
  RunRecords(const RunConfig& config, const RunFolder& folder, const RunContext& context, int ranks,
             std::int64_t steps, const std::optional<ResumePoint>& resumed);
  RunRecords(const RunRecords&) = delete;
  RunRecords& operator=(const RunRecords&) = delete;
  ~RunRecords();

  // The records and the lock must outlive the trainer's run().
  void attach_to(Trainer& trainer, RunLock& lock);
  // Checkpoints and copies have all records before them; those are told in the records after.
  [[nodiscard]] RunCheckpoints::Hooks of_checkpoints(RunLock& lock, StopTime* stop_time);
  [[nodiscard]] RunCopies::Hooks of_copies();
  void flush();

  [[nodiscard]] RunLog& log() { return log_; }
  [[nodiscard]] const HistoryRecorder& history() const { return history_; }

 private:
  RunLog log_;
  ProgressBar bar_;
  HistoryRecorder history_;
  TensorBoardRecorder tensorboard_;
  ProgressReporter progress_;
  std::optional<StepNotes> notes_;
};

RunRecords::RunRecords(const RunConfig& config, const RunFolder& folder, const RunContext& context,
                       int ranks, std::int64_t steps, const std::optional<ResumePoint>& resumed)
    : log_({.console = &console_of(context.options),
            .colour = context.progress.terminal && detect_colour(1),
            .width = context.progress.terminal ? context.progress.width : 0,
            .file = folder.log(),
            .verbosity = context.options.verbosity}),
      bar_(console_of(context.options), context.progress),
      history_(earlier_history(folder, ranks, resumed), folder.history(),
               record_interval(config.training, steps)),
      tensorboard_(folder.path, record_interval(config.training, steps)),
      progress_(bar_, log_, most_epochs(config, replicas_of(config, ranks)),
                sample_name(config.data)) {
  log_.route_console_through([this](std::string_view line) { bar_.print_above(line); });
  if (resumed) folder.checkpoint_store().remove_after(resumed->step);
}

RunRecords::~RunRecords() {
  log_.route_console_through({});
}

void RunRecords::attach_to(Trainer& trainer, RunLock& lock) {
  trainer.add_observer(notes_.emplace(lock));
  trainer.add_observer(history_);
  trainer.add_observer(tensorboard_);
  trainer.add_observer(progress_);
}

void RunRecords::flush() {
  history_.flush();
  tensorboard_.flush();
}

RunCheckpoints::Hooks RunRecords::of_checkpoints(RunLock& lock, StopTime* stop_time) {
  const auto before = [this, &lock] {
    lock.require_held();
    flush();
  };
  const auto on_saved = [this, stop_time](const SavedCheckpoint& saved) {
    if (stop_time != nullptr) stop_time->note_checkpoint(saved.seconds);
    log_.debug("checkpoint {}: training stood still for {:.1f} ms{}, writing took {}",
               saved.path.string(), 1e3 * saved.stall_seconds,
               saved.waited_seconds > .001
                   ? fmt::format(", {:.1f} ms of it until the one before was written",
                                 1e3 * saved.waited_seconds)
                   : "",
               format_duration(saved.seconds));
    history_.add(CheckpointRecord{saved.step, saved.stall_seconds, saved.waited_seconds,
                                  saved.seconds, wall_time()});
  };
  return {before, on_saved, [this](const std::string& warning) { log_.warn("{}", warning); }};
}

RunCopies::Hooks RunRecords::of_copies() {
  return {[this] { flush(); }, [this](const std::string& warning) { log_.warn("{}", warning); }};
}

// Ranks, communication, data, model, optimizer and rates, before training.
void log_set_up(RunLog& log, const PreparedRun& run, const Communicator& communicator,
                const Trainer& trainer, const LearningRate& rate, const ModelSummary& model) {
  const auto& config = run.config;
  const auto capabilities = communicator.capabilities();
  const auto& topology = communicator.topology();
  if (!config.description.empty()) log.info("{}", config.description);
  log_start(log, topology);
  log.info("{} rank{} on {} node{}, {} thread{} each; {}", topology.size,
           topology.size == 1 ? "" : "s", topology.nodes, topology.nodes == 1 ? "" : "s",
           at::get_num_threads(), at::get_num_threads() == 1 ? "" : "s",
           capabilities.backend == "solo" ? "no communication"
                                          : "communication by " + capabilities.transport);
  if (config.device.intra_threads > at::get_num_threads()) {
    log.warn(
        "device.intra_threads: {} are more threads than there are processors here: each rank has "
        "{}. More would only wait for each other",
        config.device.intra_threads, at::get_num_threads());
  }
  if (!capabilities.device_transport.empty())
    log.info("between devices: {}", capabilities.device_transport);
  if (capabilities.backend == "mpi" && !capabilities.concurrent) {
    log.warn(
        "MPI grants the thread level '{}' only, 'multiple' is needed for communication to "
        "overlap with backward; training "
        "works, but slower",
        capabilities.thread_level);
  }
  log.info("data {}: {} training and {} validation samples", config.data.name,
           format_count(run.datasets.training->size()),
           format_count(run.datasets.validation->size()));
  if (!run.datasets.note_of_loads.empty()) log.info("{}", run.datasets.note_of_loads);
  for (const auto& warning : run.datasets.warnings) log.warn("{}", warning);
  const auto precision = config.training.precision;
  log.info("model {}: {} parameters in {} bucket{}{}{}{}", config.model.name,
           format_count(model.parameters), trainer.plan().buckets.size(),
           trainer.plan().buckets.size() == 1 ? "" : "s",
           config.parallel.pipeline > 1 ? " on rank 0" : "",
           model.trainable_parameters < model.parameters
               ? fmt::format(", {} of them trained", format_count(model.trainable_parameters))
               : "",
           precision == Precision::fp32 ? "" : fmt::format(", computed in {}", name_of(precision)));
  if (precision == Precision::bf16 && !wants_gpu(config.device) && !onednn_description().empty() &&
      !multiplies_bfloat16()) {
    log.warn(
        "this processor does not multiply bfloat16: values are rounded to it and multiplied in "
        "float32, which is no faster; training.precision=fp32 does without the roundings");
  }
  const auto replicas = replicas_of(config, topology.size);
  const auto batch_size = batch_size_of(config.training, replicas);
  if (config.training.virtual_ranks > 0) {
    log.info(
        "{} virtual ranks: the results are those of any number of ranks up to {} (with {} "
        "thread{} each, on such processors)",
        replicas, replicas, at::get_num_threads(), at::get_num_threads() == 1 ? "" : "s");
  }
  const auto passes = config.training.accumulation;
  log.info("optimizer {}, batch {} per {}{} ({} in all), learning rate {:.4g}{}{}{}",
           describe_optimizer(config.optimizer), format_count(batch_size),
           replica_name(config, topology.size),
           passes > 1 ? fmt::format(" in {} passes", format_count(passes)) : "",
           format_count(batch_size * replicas), rate.scaled_rate(),
           rate.warmup_steps() > 0
               ? fmt::format(" after {} warm-up steps from {:.4g}", rate.warmup_steps(), rate.at(0))
               : "",
           schedule_name(rate.schedule()) == "constant"
               ? ""
               : fmt::format(", {}", schedule_name(rate.schedule())),
           trainer.shares_steps()     ? "; the ranks of a node share its steps"
           : config.optimizer.sharded ? "; each rank has a part of its state"
                                      : "");
  if (const auto& adascale = trainer.options().adascale) {
    log.info(
        "AdaScale: the rate of batches of {:g}, times the gain of each step; ends after steps "
        "worth "
        "{} epochs of these, in {} epochs at most",
        adascale->batch, adascale->epochs, trainer.options().epochs);
  }
  if (optimizer_entry(config.optimizer.name).averages &&
      schedule_name(rate.schedule()) != "constant") {
    log.warn(
        "{} averages over the steps, which takes the place of a decay of the rate: with both the "
        "last steps hardly count; training.lr_decay=none does without",
        config.optimizer.name);
  }
  const auto validated = validation_batch_size_of(config, *run.datasets.validation, replicas);
  log.debug("validation batch {} per {}", format_count(validated),
            replica_name(config, topology.size));
  if (config.communication.compression != Compression::none && topology.size > 1) {
    log.info("gradients travel as {}{}", name_of(config.communication.compression),
             config.communication.compression == Compression::powersgd
                 ? "; what it carries over from step to step is not part of checkpoints"
                 : "");
  }
}

void log_pipeline(RunLog& log, const PreparedRun& run, const std::optional<PipelineCut>& cut,
                  int ranks) {
  if (cut) {
    for (const auto& line : describe_pipeline(run.config, *cut, run.datasets, ranks))
      log.info("{}", line);
  }
  if (run.config.parallel.recompute)
    log.info("inner results of stages are computed again in backward (parallel.recompute)");
}

// The network's layers: a short list, or where to find a long one, which is written to model.txt.
void log_model(RunLog& log, const PreparedRun& run, const ModelSummary& summary,
               const RunOptions& options) {
  const auto text = to_text(summary);
  write_file_atomically(run.folder.model(), text);
  if (summary.layers.size() <= most_lines || options.verbosity > 0) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) log.info("{}", line);
  } else {
    log.info("its {} layers are listed in {}, or here with -v", summary.layers.size(),
             run.folder.model().string());
  }
}

// Where it goes on, and what is different from now on.
void log_resume(RunLog& log, const PreparedRun& run, const CheckpointStore::Loaded& from) {
  if (const auto& host = run.resumed->copy_on; !host.empty()) {
    const auto all = run.folder.checkpoint_store().list();
    log.info("resuming from the copy of step {} on {} ({}); {}", from.step, host,
             from.path.string(),
             all.empty() ? "there is no checkpoint yet"
                         : fmt::format("the newest checkpoint is of step {}", all.front().step));
  } else {
    log.info("resuming from {}", from.path.string());
  }
  if (!run.changes.of_steps.empty()) log.info("{}", run.changes.of_steps);
  if (!run.changes.settings.empty()) {
    log.info("other settings than so far: {}{}", describe(run.changes.settings),
             run.starts_anew() ? "" : "; the earlier ones are kept beside config.yaml");
  }
  const auto other_making = describe_other_making(run.resumed->made_with, made_with_here());
  if (!other_making.empty())
    log.warn("made with {}: the last digits may be others than they would have been", other_making);
  for (const auto& change : run.changes.of_data_order)
    log.warn("samples come in another order than so far: {}", change);
}

// A stop on request; `by`: "SIGTERM", or empty.
void log_stop(RunLog& log, const PreparedRun& run, const std::string& by, const TrainState& state) {
  log.warn(
      "stopped{} at step {}{}", by.empty() ? " on request" : " by " + by, state.step,
      run.config.checkpoint.enabled ? "; the same command with --resume goes on from there" : "");
}

// Who has stopped the run at this state; empty: not known.
std::string stopped_by(const RunContext& context, const TrainState& state) {
  auto by = context.stopped_by();
  const auto& limit = context.options.stop_after_epochs;
  if (by.empty() && limit && state.position == 0 && state.epoch >= *limit)
    return fmt::format("--stop-after-epochs {}", *limit);
  return by;
}

// The best, and where the results are.
void log_summary(RunLog& log, const PreparedRun& run, const RunRecords& records,
                 const TrainState& state, const torch::Device& device) {
  const double mean = records.history().mean_epoch_seconds();
  if (std::isfinite(state.best_loss)) {
    log.info("best validation loss {} (epoch {}), mean epoch time {}", format_loss(state.best_loss),
             state.best_epoch, format_duration(mean));
  } else if (state.best_accuracy >= 0) {
    const auto top = records.history().best_top_accuracy();
    log.info("best validation accuracy {:.2f} % (epoch {}){}, mean epoch time {}",
             100 * state.best_accuracy, state.best_epoch,
             top ? fmt::format(", best top 5 {:.2f} %", 100 * *top) : "", format_duration(mean));
  }
  const auto on_device = memory_use(device);
  log.info("peak memory of rank 0: {}{}", format_bytes(peak_resident_bytes()),
           on_device ? fmt::format(", of its device {}", format_bytes(static_cast<std::uint64_t>(
                                                             on_device->peak_reserved_bytes)))
                     : "");
  if (const auto usage = records.history().device_usage())
    log.info("devices: {}", describe(*usage));
  log.info(
      "results in {}: history.json, events.out.tfevents.*, checkpoints/, out.log, model.txt, "
      "config.yaml, run.json{}",
      run.folder.path.string(),
      run.config.model.name == torchscript_model ? fmt::format(", {}", torchscript_file) : "");
}

void start_folder(const PreparedRun& run, const RunLock& lock, const RunContext& context,
                  const RunBegin& begin) {
  if (lock.moved())
    console_of(context.options) << fmt::format("{} held an earlier run; it is now {}\n",
                                               run.folder.path.string(), lock.moved()->string());
  run.folder.remove_leftovers();
  const bool goes_on = !run.starts_anew() && std::filesystem::exists(run.folder.config());
  if (goes_on && !run.changes.settings.empty()) (void)run.folder.keep_config();
  write_file_atomically(run.folder.config(), to_yaml(run.config));
  note_run_start(run.folder.origin(), context.origin, begin);
  run.folder.remove_timelines_of_ranks();  // of what is resumed
}

// Collective.
Timeline start_timeline(const Communicator& communicator, const RunFolder& folder,
                        const RunOptions& options) {
  if (!options.timeline) return Timeline::from_environment(communicator);
  Timeline timeline(communicator, {.folder = folder.timelines_of_ranks()});
  timeline.start();
  return timeline;
}

// Who asks the run to stop does not wait for it much longer.
void merge_timelines_of_run(const RunFolder& folder, const RunContext& context, RunLog& log) {
  constexpr double patience = 5;  // seconds
  const Stopwatch watch;
  const auto gives_up = [&] { return watch.seconds() > patience && context.stop_requested(); };
  const auto merged = merge_timelines(folder.timelines_of_ranks(), folder.timeline(), gives_up);
  if (merged.is_given_up) {
    log.warn("the ranks' timelines are not merged, as the run is to stop: kolo timeline {} does it",
             folder.path.string());
  } else {
    log.info("timeline in {}: open it in chrome://tracing or https://ui.perfetto.dev",
             folder.timeline().string());
  }
}

// Collective. `log`: of rank 0.
void finish_timeline(const Timeline& timeline, const Communicator& communicator,
                     const RunFolder& folder, const RunContext& context, RunLog* log) {
  timeline.stop();
  if (context.options.timeline) communicator.barrier();
  if (log == nullptr) return;
  if (const auto problem = timeline.problem(); !problem.empty()) log->warn("{}", problem);
  if (context.options.timeline) merge_timelines_of_run(folder, context, *log);
}

// Whether anything is left to do, as rank 0 has found. Collective.
bool has_work(const Communicator& communicator, const PreparedRun& run) {
  std::int32_t answer = run.finished.empty() ? 1 : 0;
  communicator.broadcast(std::span(&answer, 1), 0, {.name = "what is left to do"});
  return answer != 0;
}

// Those that the run computes with from now on. Collective. `log`: of rank 0.
std::shared_ptr<const KernelChoices> choose_kernels_of(KernelQuestion question,
                                                       const PreparedRun& run,
                                                       const Communicator& communicator,
                                                       RunLog* log) {
  if (log != nullptr) {
    question.say = [log](const std::string& text) { log->info("{}", text); };
    question.warn = [log](const std::string& text) { log->warn("{}", text); };
    if (!run.starts_anew() && std::filesystem::exists(run.folder.kernels()))
      question.own = kernel_choices_from_json(read_text_file(run.folder.kernels()));
  }
  auto choices = choose_kernels(question, communicator);
  if (log != nullptr && choices && !choices->empty())
    write_file_atomically(run.folder.kernels(), to_json(*choices) + "\n");
  return choices;
}

// About, where the ranks have a part of the network each.
std::uint64_t checkpoint_bytes(const RunConfig& config, const Trainer& trainer) {
  return trainer.checkpoint_bytes() * static_cast<std::uint64_t>(config.parallel.pipeline);
}

// The exit status. Collective.
int train_in_folder(PreparedRun& run, RunStart& start, const Communicator& communicator,
                    const RunContext& context) {
  const auto& config = run.config;
  const auto& options = context.options;
  const bool is_root = communicator.rank() == 0;
  const auto share = share_work(config, communicator);
  const auto datasets = share_datasets(share, run.datasets, config.data.bad_samples);
  const auto training = make_training_loader(config, datasets.training, share.replica,
                                             share.replicas, share.replicas_here);
  auto& resumed = start.from;
  std::optional<RunRecords> records;
  const auto begin = begin_at(resumed ? resumed->step : 0);
  if (is_root) {
    start_folder(run, *start.lock, context, begin);
    records.emplace(config, run.folder, context, communicator.size(), training->batches(),
                    resumed ? std::optional(resume_point(*resumed)) : std::nullopt);
    log_run_start(records->log(), context.origin);
    for (const auto& warning : start.warnings) records->log().warn("{}", warning);
  }
  const auto validation = make_validation_loader(config, datasets.validation, share.replica,
                                                 share.replicas, share.replicas_here);
  const auto rate = make_learning_rate(config, share.replicas, training->batches());
  auto trainer_options = make_trainer_options(config);
  trainer_options.replica = share.replica;
  trainer_options.adascale = make_adascale(config, share.replicas, training->batches());
  trainer_options.epochs = most_epochs(config, share.replicas);
  trainer_options.made_with = made_with_here();
  trainer_options.stop_requested = context.stop_requested;
  trainer_options.stop_after_epochs = options.stop_after_epochs;
  trainer_options.stop_validation_requested = trainer_options.stop_requested;
  const auto timeline = start_timeline(communicator, run.folder, options);
  trainer_options.timeline = timeline;
  const auto device = start_device(config.device, communicator);
  trainer_options.device_usage = follow_device(communicator, device);
  if (!config.model.init_from.empty() && !options.resume)
    load_initial_weights(config, communicator, *run.network, is_root ? &records->log() : nullptr);
  std::optional<ModelSummary> summary;
  if (is_root) summary = summarize(*run.network, run.datasets.training->layout().input_shape);
  const auto share_text =
      describe_work_share(config, run.datasets, *run.network, communicator.size());
  imitate_network_share(share, run.datasets, *run.network);
  KernelQuestion question{config, datasets, *run.network};
  question.stop_requested = context.stop_requested;
  run.objective.kernels = choose_kernels_of(std::move(question), run, communicator,
                                            is_root ? &records->log() : nullptr);
  const auto network =
      make_rank_network({config, run.datasets, share, communicator, device, timeline},
                        std::exchange(run.network, nullptr), run.objective);
  const auto trainer = make_trainer(
      communicator, network,
      {run.objective, std::move(run.optimizer), rate, *training, *validation}, trainer_options);
  std::optional<RunCheckpoints> checkpoints;
  if (config.checkpoint.enabled)
    checkpoints.emplace(config, run.folder, share, communicator, *trainer, start.is_from_copy);
  std::optional<RunCopies> copies;
  if (config.checkpoint.enabled && !config.checkpoint.local_folder.empty())
    copies.emplace(config, run.folder, begin, share, communicator, *trainer);
  if (checkpoints && !is_root) checkpoints->attach_to(*trainer, {});
  if (copies && !is_root) copies->attach_to(*trainer, {});
  if (is_root) {
    log_set_up(records->log(), run, communicator, *trainer, rate, *summary);
    for (const auto& line : share_text.lines) records->log().info("{}", line);
    log_pipeline(records->log(), run, network.cut, communicator.size());
    for (const auto& warning : share_text.warnings) records->log().warn("{}", warning);
    log_model(records->log(), run, *summary, options);
    records->attach_to(*trainer, *start.lock);
    if (checkpoints) {
      checkpoints->attach_to(*trainer, records->of_checkpoints(*start.lock, context.stop_time));
      if (context.stop_time != nullptr)
        context.stop_time->expect_checkpoints(checkpoint_bytes(config, *trainer));
    }
    if (checkpoints && !checkpoints->describe().empty())
      records->log().debug("{}", checkpoints->describe());
    if (copies) copies->attach_to(*trainer, records->of_copies());
    if (copies && !copies->describe().empty()) records->log().info("{}", copies->describe());
    for (auto* const observer : context.observers) trainer->add_observer(*observer);
    if (resumed) log_resume(records->log(), run, *resumed);
  }
  if (start.goes_on)
    trainer->restore(resumed ? std::optional(std::move(resumed->content)) : std::nullopt);

  const auto outcome = trainer->run();
  if (is_root) records->flush();  // what there is to tell of the last checkpoint
  if (copies) copies->remove(communicator);
  finish_timeline(timeline, communicator, run.folder, context, is_root ? &records->log() : nullptr);
  if (outcome == TrainOutcome::stopped) {
    if (is_root)
      log_stop(records->log(), run, stopped_by(context, trainer->state()), trainer->state());
    return exit_stopped;
  }
  if (is_root) {
    if (config.model.name == torchscript_model)
      save_torchscript(*network.whole, run.folder.path / torchscript_file);
    log_summary(records->log(), run, *records, trainer->state(), device);
  }
  return 0;
}

}  // namespace

std::ostream& console_of(const RunOptions& options) {
  return options.console == nullptr ? std::cout : *options.console;
}

int run_training(PreparedRun run, const Communicator& communicator, const RunContext& context) {
  const auto& options = context.options;
  const bool is_root = communicator.rank() == 0;
  if (!has_work(communicator, run)) {
    if (is_root) console_of(context.options) << run.finished << std::endl;
    return 0;
  }
  RunStart start;
  if (is_root) start.lock = RunLock::of_rank_0(run.folder, run.starts_anew());
  if (options.resume) find_start(start, run, options, communicator);
  return once_begun([&] {
    try {
      return train_in_folder(run, start, communicator, context);
    } catch (const std::exception&) {
      // Whichever file could not be written: that the folder was taken away is what explains it.
      if (start.lock) start.lock->require_held();
      throw;
    }
  });
}

}  // namespace kolo
