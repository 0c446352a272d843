#include "cli/train/run_messages.h"

#include <cmath>
#include <sstream>
#include <variant>

#include <fmt/format.h>

#include "kolo/base/file.h"
#include "kolo/base/host_name.h"
#include "kolo/launch/launch_environment.h"
#include "kolo/nn/summary.h"
#include "kolo/observe/format.h"
#include "kolo/observe/memory.h"

namespace kolo {

namespace {

std::int64_t count_parameters(const torch::nn::Module& network) {
  std::int64_t count = 0;
  for (const auto& parameter : distinct_parameters(network)) count += parameter.numel();
  return count;
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

}  // namespace

void log_set_up(RunLog& log, const PreparedRun& run, const Communicator& communicator,
                const Trainer& trainer, const LearningRate& rate) {
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
  for (const auto& warning : run.datasets.warnings) log.warn("{}", warning);
  const auto precision = config.training.precision;
  log.info("model {}: {} parameters in {} bucket{}{}", config.model.name,
           format_count(count_parameters(*run.network)), trainer.plan().buckets.size(),
           trainer.plan().buckets.size() == 1 ? "" : "s",
           precision == Precision::fp32 ? "" : fmt::format(", computed in {}", name_of(precision)));
  const auto batch_size = batch_size_of(config.training, topology.size);
  log.info("optimizer {}, batch {} a rank ({} in all), learning rate {:.4g}{}{}{}",
           describe_optimizer(config.optimizer), format_count(batch_size),
           format_count(batch_size * topology.size), rate.scaled_rate(),
           rate.warmup_steps() > 0
               ? fmt::format(" after {} warm-up steps from {:.4g}", rate.warmup_steps(), rate.at(0))
               : "",
           std::holds_alternative<ConstantRate>(rate.schedule())
               ? ""
               : fmt::format(", {}", schedule_name(rate.schedule())),
           trainer.shares_steps() ? "; the ranks of a node share its steps" : "");
}

void log_model(RunLog& log, const PreparedRun& run, const RunOptions& options) {
  const auto summary = summarize(*run.network, run.datasets.training->layout().input_shape);
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

void log_resume(RunLog& log, const PreparedRun& run, const CheckpointStore::Loaded& from) {
  log.info("resuming from {}", from.path.string());
  if (!run.changes.of_steps.empty()) log.info("{}", run.changes.of_steps);
  if (!run.changes.settings.empty()) {
    log.info("other settings than so far: {}{}", describe(run.changes.settings),
             run.starts_anew() ? "" : "; the earlier ones are kept beside config.yaml");
  }
  for (const auto& change : run.changes.of_data_order)
    log.warn("samples come in another order than so far: {}", change);
}

void log_stop(RunLog& log, const PreparedRun& run, StopSignal& stop, const TrainState& state) {
  log.warn(
      "stopped{} at step {}{}", stop.name().empty() ? " on request" : " by " + stop.name(),
      state.step,
      run.config.checkpoint.enabled ? "; the same command with --resume goes on from there" : "");
}

void log_summary(RunLog& log, const PreparedRun& run, const RunRecords& records,
                 const TrainState& state) {
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
  log.info("peak memory of rank 0: {}", format_bytes(peak_resident_bytes()));
  log.info(
      "results in {}: history.json, events.out.tfevents.*, checkpoints/, out.log, model.txt, "
      "config.yaml, run.json{}",
      run.folder.path.string(),
      run.config.model.name == torchscript_model ? fmt::format(", {}", torchscript_file) : "");
}

}  // namespace kolo
