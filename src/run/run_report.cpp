#include "run/run_report.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "kolo/base/file.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"
#include "kolo/config/derived_settings.h"
#include "kolo/kernels/onednn.h"
#include "kolo/optim/catalogue.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/observe/format.h"
#include "run/run_device.h"

namespace kolo {

namespace {

constexpr std::size_t most_lines = 40;  // of a summary on the console, unless asked for more

// Logs "started by Slurm's srun in Slurm job 12: rank 0 of 4, local rank 0 of 2 on node 1 of 2
// (n1)". The scripts in submit/ look for the job in this line.
void log_start(RunLog& log, const Topology& topology) {
  const auto environment = detect_launch_environment();
  const auto job = describe_job();
  if (!environment.is_launched() && job.empty()) return;
  const bool is_of_kolo = environment.started_by == StartedBy::kolo;
  const auto launcher = is_of_kolo ? "kolo, without MPI" : environment.launcher;
  log.info("started{}{}: {} ({})", environment.is_launched() ? fmt::format(" by {}", launcher) : "",
           job.empty() ? "" : fmt::format("{} in {}", is_of_kolo ? "," : "", job),
           topology.describe(), host_name());
}

void log_ranks(RunLog& log, const RunConfig& config, const Communicator& communicator) {
  const auto capabilities = communicator.capabilities();
  const auto& topology = communicator.topology();
  log.info("{} on {}, {} each; {}", counted(topology.size, "rank"), counted(topology.nodes, "node"),
           counted(at::get_num_threads(), "thread"),
           capabilities.backend == "solo" ? "no communication"
                                          : "communication by " + capabilities.transport);
  if (config.device.intra_threads > at::get_num_threads()) {
    log.warn(
        "device.intra_threads: {} are more threads than there are processors here, or more than "
        "OMP_THREAD_LIMIT allows: each rank has {}. More would only wait for each other",
        config.device.intra_threads, at::get_num_threads());
  }
  if (!capabilities.device_transport.empty() && topology.size > 1)
    log.info("between devices: {}", capabilities.device_transport);
  if (capabilities.backend == "mpi" && !capabilities.concurrent) {
    log.warn(
        "MPI grants the thread level '{}' only, 'multiple' is needed for communication to overlap "
        "with backward; training works, but slower",
        capabilities.thread_level);
  }
}

void log_data(RunLog& log, const PreparedRun& run) {
  const auto& config = run.config;
  log.info("data {}: {} training and {} validation samples", config.data.name,
           format_count(run.datasets.training->size()),
           format_count(run.datasets.validation->size()));
  for (const auto& note : {run.datasets.note_of_split, run.datasets.note_of_loads})
    if (!note.empty()) log.info("{}", note);
  for (const auto& warning : run.datasets.warnings) log.warn("{}", warning);
}

void log_network(RunLog& log, const RunConfig& config, const Trainer& trainer,
                 const ModelSummary& model) {
  const auto precision = config.training.precision;
  log.info("model {}: {} parameters in {}{}{}{}", config.model.name, format_count(model.parameters),
           counted(std::ssize(trainer.plan().buckets), "bucket"),
           config.parallel.pipeline > 1 ? " on rank 0" : "",
           model.trainable_parameters < model.parameters
               ? fmt::format(", {} of them trained", format_count(model.trainable_parameters))
               : "",
           precision == Precision::fp32 ? "" : fmt::format(", computed in {}", name_of(precision)));
  if (precision == Precision::bf16 && !wants_gpu(config.device) && !onednn_description().empty() &&
      !multiplies_bfloat16()) {
    log.warn(
        "this processor does not multiply bfloat16: kolo's layers round values to it and multiply "
        "in float32, which is no faster, and layers of torch::nn in a network of one's own are "
        "many times slower; training.precision=fp32 does without");
  }
  if (precision == Precision::fp32 && wants_gpu(config.device) && !config.device.tf32) {
    log.info(
        "products and convolutions multiply in float32; device.tf32=true rounds their factors to "
        "TF32, which GPUs since the A100 multiply several times as fast (PyTorch's default for "
        "convolutions)");
  }
}

void log_optimizer(RunLog& log, const RunConfig& config, int ranks, const Trainer& trainer,
                   const LearningRate& rate) {
  const auto replicas = replicas_of(config, ranks);
  const auto batch_size = batch_size_of(config.training, replicas);
  if (config.training.virtual_ranks > 0) {
    log.info(
        "{} virtual ranks: the results are those of any number of ranks up to {} (with {} each, on "
        "such processors)",
        replicas, replicas, counted(at::get_num_threads(), "thread"));
  }
  const auto passes = config.training.accumulation;
  log.info("optimizer {}, batch {} per {}{} ({} in all), learning rate {:.4g}{}{}{}",
           describe_optimizer(config.optimizer), format_count(batch_size), replica_name(config),
           passes > 1 ? fmt::format(" in {} passes", format_count(passes)) : "",
           format_count(batch_size * replicas), rate.scaled_rate(),
           rate.warmup_steps() > 0
               ? fmt::format(" after {} warm-up steps from {:.4g}", rate.warmup_steps(), rate.at(0))
               : "",
           rate.schedule_name() == "constant" ? "" : fmt::format(", {}", rate.schedule_name()),
           trainer.shares_steps()     ? "; the ranks of a node share its steps"
           : config.optimizer.sharded ? "; each rank has a part of its state"
                                      : "");
  if (optimizer_entry(config.optimizer.name).averages && rate.schedule_name() != "constant") {
    log.warn(
        "{} averages over the steps, which takes the place of a decay of the rate: with both the "
        "last steps hardly count; training.lr_decay=none does without",
        config.optimizer.name);
  }
}

}  // namespace

void log_set_up(RunLog& log, const PreparedRun& run, const Communicator& communicator,
                const Trainer& trainer, const LearningRate& rate, const ModelSummary& model) {
  const auto& config = run.config;
  const auto ranks = communicator.size();
  if (!config.description.empty()) log.info("{}", config.description);
  log_start(log, communicator.topology());
  log_ranks(log, config, communicator);
  log_data(log, run);
  log_network(log, config, trainer, model);
  log_optimizer(log, config, ranks, trainer, rate);
  const auto validated =
      validation_batch_size_of(config, *run.datasets.validation, replicas_of(config, ranks));
  log.debug("validation batch {} per {}", format_count(validated), replica_name(config));
  if (config.communication.compression != Compression::none && ranks > 1) {
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

void log_model(RunLog& log, const PreparedRun& run, const ModelSummary& summary) {
  const auto text = to_text(summary);
  write_file_atomically(run.folder.model(), text);
  if (summary.layers.size() <= most_lines) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) log.info("{}", line);
  } else {
    log.info("its {} layers are listed in {}", summary.layers.size(), run.folder.model().string());
  }
}

void log_resume(RunLog& log, const PreparedRun& run, const LoadedCheckpoint& from) {
  log.info("resuming from {}", from.path.string());
  if (!run.changes.of_steps.empty()) log.info("{}", run.changes.of_steps);
  if (!run.changes.settings.empty())
    log.info("other settings than so far: {}", describe(run.changes.settings));
  const auto other_making = describe_other_making(run.resumed->made_with, made_with_here());
  if (!other_making.empty())
    log.warn("made with {}: the last digits may be others than they would have been", other_making);
  for (const auto& change : run.changes.of_data_order)
    log.warn("samples come in another order than so far: {}", change);
}

void log_stop(RunLog& log, const PreparedRun& run, const RunContext& context,
              const TrainState& state) {
  auto by = context.stopping.by();
  const auto& limit = context.options.stop_after_epochs;
  if (by.empty() && limit && state.position == 0 && state.epoch >= *limit)
    by = fmt::format("--stop-after-epochs {}", *limit);
  log.warn(
      "stopped{} at step {}{}", by.empty() ? " on request" : " by " + by, state.step,
      run.config.checkpoint.saves() ? "; the same command with --resume goes on from there" : "");
}

void log_summary(RunLog& log, const PreparedRun& run, const RunRecorder& recorder,
                 const TrainState& state, const torch::Device& device) {
  const double mean = recorder.mean_epoch_seconds();
  if (std::isfinite(state.best_loss)) {
    log.info("best validation loss {} (epoch {}), mean epoch time {}", format_loss(state.best_loss),
             state.best_epoch, format_duration(mean));
  } else if (state.best_accuracy >= 0) {
    const auto top = recorder.best_top_accuracy();
    log.info("best validation accuracy {:.2f} % (epoch {}){}, mean epoch time {}",
             100 * state.best_accuracy, state.best_epoch,
             top ? fmt::format(", best top 5 {:.2f} %", 100 * *top) : "", format_duration(mean));
  }
  const auto on_device = memory_use(device);
  log.info("peak memory of rank 0: {}{}", format_bytes(peak_resident_bytes()),
           on_device ? fmt::format(", of its device {}", format_bytes(static_cast<std::uint64_t>(
                                                             on_device->peak_reserved_bytes)))
                     : "");
  log.info(
      "results in {}: history.json, events.out.tfevents.*, {}out.log, model.txt, config.yaml, "
      "run.json{}",
      run.folder.path.string(), run.config.checkpoint.saves() ? "checkpoints/, " : "",
      run.models.find(run.config.model.name).is_script ? fmt::format(", {}", torchscript_file)
                                                       : "");
}

namespace {

History earlier_history(const RunFolder& folder, int ranks,
                        const std::optional<ResumePoint>& resumed) {
  if (!resumed || !std::filesystem::exists(folder.history())) return History(ranks);
  History history = History::read(folder.history());
  history.drop_after(resumed->step, resumed->epoch);
  return history;
}

// Steps between two records; a run ends with its epochs or steps, whichever come first.
std::int64_t record_interval(const TrainingConfig& config, std::int64_t steps_of_epoch) {
  const auto by_epochs = thin_record_interval(config.n_epochs, steps_of_epoch);
  const auto by_steps = config.max_steps ? thin_record_interval(1, *config.max_steps) : by_epochs;
  return config.log_every.value_or(std::min(by_epochs, by_steps));
}

}  // namespace

RunRecords::RunRecords(const RunConfig& config, const RunFolder& folder, const RunContext& context,
                       int ranks, std::int64_t steps, const std::optional<ResumePoint>& resumed)
    : log_({.console = &console_of(context.options),
            .colour = context.progress.terminal && detect_colour(1),
            .width = context.progress.terminal ? context.progress.width : 0,
            .file = folder.log()}),
      bar_(console_of(context.options), context.progress),
      recorder_(earlier_history(folder, ranks, resumed), folder.path,
                record_interval(config.training, steps)),
      progress_(bar_, log_, config.training.n_epochs, sample_name(config.data)) {
  log_.route_console_through([this](std::string_view line) { bar_.print_above(line); });
  if (resumed) folder.checkpoint_store().remove_after(resumed->step);
}

RunRecords::~RunRecords() {
  log_.route_console_through({});
}

void RunRecords::attach_to(Trainer& trainer, RunLock& lock) {
  trainer.add_observer(notes_.emplace(lock));
  trainer.add_observer(recorder_);
  trainer.add_observer(progress_);
}

CheckpointHooks RunRecords::of_checkpoints(RunLock& lock, Stopping& stopping) {
  const auto before = [this, &lock] {
    lock.require_held();
    flush();
  };
  const auto on_saved = [this, &stopping](const SavedCheckpoint& saved) {
    if (auto* const time = stopping.time()) time->note_checkpoint(saved.seconds);
    log_.debug("checkpoint {}: training stood still for {:.1f} ms{}, writing took {}",
               saved.path.string(), 1e3 * saved.stall_seconds,
               saved.waited_seconds > .001
                   ? fmt::format(", {:.1f} ms of it until the one before was written",
                                 1e3 * saved.waited_seconds)
                   : "",
               format_duration(saved.seconds));
    recorder_.add(CheckpointRecord{saved.step, saved.stall_seconds, saved.waited_seconds,
                                   saved.seconds, wall_time()});
  };
  return {before, on_saved, [this](const std::string& warning) { log_.warn("{}", warning); }};
}

}  // namespace kolo
