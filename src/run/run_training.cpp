#include "run/run_training.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/comm/communicator.h"
#include "kolo/config/factories.h"
#include "kolo/data/loader.h"
#include "kolo/nn/models.h"
#include "kolo/nn/network.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/parallel/timeline.h"
#include "kolo/train/objective.h"
#include "kolo/train/trainer.h"
#include "run/initial_weights.h"
#include "run/load_checkpoint.h"
#include "run/load_data.h"
#include "run/pipeline_share.h"
#include "run/rank_guard.h"
#include "run/resume.h"
#include "run/run_checkpoints.h"
#include "run/run_device.h"
#include "run/run_folder.h"
#include "run/run_lock.h"
#include "run/run_report.h"
#include "run/stopping.h"
#include "run/strict_resume.h"
#include "run/work_share.h"

namespace kolo {

namespace {

// Tells whether anything is left to do, as rank 0 has found. Collective.
bool has_work(const Communicator& communicator, const PreparedRun& run) {
  std::int32_t answer = run.finished.empty() ? 1 : 0;
  communicator.broadcast(std::span(&answer, 1), 0, {.name = "what is left to do"});
  return answer != 0;
}

}  // namespace

std::optional<RunStart> start_run(PreparedRun& run, const RunOptions& options,
                                  const Communicator& communicator) {
  const bool is_root = communicator.rank() == 0;
  if (!has_work(communicator, run)) {
    if (is_root) console_of(options) << run.finished << std::endl;
    return std::nullopt;
  }
  RunStart start;
  if (!is_root) return start;
  start.lock = RunLock::of_rank_0(run.folder, run.starts_anew());
  if (options.resume) start.from = load_resumed(run, options, communicator.size(), start.warnings);
  return start;
}

namespace {

void start_folder(const PreparedRun& run, const RunLock& lock, const RunContext& context,
                  std::int64_t from_step) {
  if (lock.moved())
    console_of(context.options) << fmt::format("{} held an earlier run; it is now {}\n",
                                               run.folder.path.string(), lock.moved()->string());
  run.folder.remove_leftovers();
  const bool goes_on = !run.starts_anew() && std::filesystem::exists(run.folder.config());
  if (goes_on && !run.changes.settings.empty()) (void)run.folder.keep_config();
  write_file_atomically(run.folder.config(), to_yaml(run.config));
  note_run_start(run.folder.origin(), context.origin, from_step);
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

// About, where the ranks have a part of the network each.
std::uint64_t checkpoint_bytes(const RunConfig& config, const Trainer& trainer) {
  return trainer.checkpoint_bytes() * static_cast<std::uint64_t>(config.parallel.pipeline);
}

// One rank's part of a run, from its loaders to its end. All of it is collective.
class RankTraining {
 public:
  RankTraining(PreparedRun& run, RunStart& start, const Communicator& communicator,
               const RunContext& context);

  // The exit status.
  [[nodiscard]] int train();

 private:
  void begin_folder();  // rank 0
  [[nodiscard]] TrainerOptions trainer_options() const;
  void set_first_weights();
  void make_network();
  void make_trainer();
  void attach_records();  // rank 0
  void log_begin();       // rank 0
  [[nodiscard]] int finish(TrainOutcome outcome);

  // Of rank 0; null on the others.
  [[nodiscard]] RunLog* log() { return records_ ? &records_->log() : nullptr; }

  PreparedRun& run_;
  RunStart& start_;
  const Communicator& communicator_;
  const RunContext& context_;
  const RunConfig& config_;
  const bool is_root_;
  const WorkShare share_;
  const Datasets datasets_;  // this rank's share of them
  const std::unique_ptr<Loader> training_;
  std::optional<RunRecords> records_;  // of rank 0
  std::unique_ptr<Loader> validation_;
  std::optional<LearningRate> rate_;
  std::optional<Timeline> timeline_;
  std::optional<torch::Device> device_;
  std::optional<ModelSummary> summary_;  // of rank 0
  WorkShareText share_text_;
  RankNetwork network_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<RunCheckpoints> checkpoints_;
};

RankTraining::RankTraining(PreparedRun& run, RunStart& start, const Communicator& communicator,
                           const RunContext& context)
    : run_(run),
      start_(start),
      communicator_(communicator),
      context_(context),
      config_(run.config),
      is_root_(communicator.rank() == 0),
      share_(share_work(config_, communicator)),
      datasets_(share_datasets(share_, run.datasets)),
      training_(make_training_loader(config_, datasets_.training, share_.replica, share_.replicas,
                                     share_.replicas_here)) {}

int RankTraining::train() {
  if (is_root_) begin_folder();
  validation_ = make_validation_loader(config_, datasets_.validation, share_.replica,
                                       share_.replicas, share_.replicas_here);
  rate_ = make_learning_rate(config_, share_.replicas, training_->batches());
  timeline_ = start_timeline(communicator_, run_.folder, context_.options);
  device_ = start_device(config_.device, communicator_);
  set_first_weights();
  make_network();
  make_trainer();
  if (is_root_) log_begin();
  if (is_root_) attach_records();
  if (context_.options.resume) {
    trainer_->restore(start_.from ? std::optional(std::move(start_.from->content)) : std::nullopt);
  }
  return finish(trainer_->run());
}

void RankTraining::begin_folder() {
  start_folder(run_, *start_.lock, context_, start_.from ? start_.from->step : 0);
  records_.emplace(config_, run_.folder, context_, communicator_.size(), training_->batches(),
                   start_.from ? std::optional(resume_point(*start_.from)) : std::nullopt);
  log_run_start(records_->log(), context_.origin);
  for (const auto& warning : start_.warnings) records_->log().warn("{}", warning);
}

TrainerOptions RankTraining::trainer_options() const {
  auto options = make_trainer_options(config_);
  options.replica = share_.replica;
  options.adascale = make_adascale(config_, share_.replicas, training_->batches());
  options.n_epochs = most_epochs(config_, share_.replicas);
  options.made_with = made_with_here();
  options.stop_requested = context_.stop_requested;
  options.stop_after_epochs = context_.options.stop_after_epochs;
  options.stop_validation_requested = options.stop_requested;
  options.timeline = timeline_.value();
  options.device_usage = follow_device(communicator_, device_.value());
  return options;
}

// Of a run that begins, unless they are those of the seed.
void RankTraining::set_first_weights() {
  if (context_.options.resume) return;
  if (config_.model.init_from.empty()) {
    show_first_samples(communicator_, *run_.datasets.training, *run_.network);
  } else {
    load_initial_weights(config_, communicator_, *run_.network, log());
  }
}

void RankTraining::make_network() {
  if (is_root_) summary_ = summarize(*run_.network, run_.datasets.training->layout().input_shape);
  share_text_ = describe_work_share(config_, run_.datasets, *run_.network, communicator_.size());
  network_ = make_rank_network(
      {config_, run_.datasets, share_, communicator_, device_.value(), timeline_.value()},
      std::exchange(run_.network, nullptr), *run_.objective);
}

void RankTraining::make_trainer() {
  trainer_ = kolo::make_trainer(
      communicator_, network_,
      {*run_.objective, std::move(run_.optimizer), rate_.value(), *training_, *validation_},
      trainer_options());
  if (!config_.checkpoint.enabled) return;
  checkpoints_.emplace(config_, run_.folder, share_, communicator_, *trainer_);
  if (!is_root_) checkpoints_->attach_to(*trainer_, {});
}

void RankTraining::attach_records() {
  records_->attach_to(*trainer_, *start_.lock);
  if (checkpoints_) {
    checkpoints_->attach_to(*trainer_, records_->of_checkpoints(*start_.lock, context_.stop_time));
    if (context_.stop_time != nullptr)
      context_.stop_time->expect_checkpoints(checkpoint_bytes(config_, *trainer_));
  }
  for (auto* const observer : context_.observers) trainer_->add_observer(*observer);
}

void RankTraining::log_begin() {
  auto& log = records_->log();
  log_set_up(log, run_, communicator_, *trainer_, rate_.value(), *summary_);
  for (const auto& line : share_text_.lines) log.info("{}", line);
  log_pipeline(log, run_, network_.cut, communicator_.size());
  for (const auto& warning : share_text_.warnings) log.warn("{}", warning);
  log_model(log, run_, *summary_, context_.options);
  if (checkpoints_ && !checkpoints_->describe().empty()) log.debug("{}", checkpoints_->describe());
  if (start_.from) log_resume(log, run_, *start_.from);
}

int RankTraining::finish(TrainOutcome outcome) {
  if (is_root_) records_->flush();  // what there is to tell of the last checkpoint
  finish_timeline(timeline_.value(), communicator_, run_.folder, context_, log());
  if (outcome == TrainOutcome::stopped) {
    if (!is_root_) return exit_stopped;
    log_stop(*log(), run_, stopped_by(context_, trainer_->state()), trainer_->state());
    leave_stop_note(run_.folder);
    return exit_stopped;
  }
  if (!is_root_) return 0;
  if (config_.model.name == torchscript_model)
    save_torchscript(*network_.whole, run_.folder.path / torchscript_file);
  log_summary(*log(), run_, records_->history(), trainer_->state(), device_.value());
  return 0;
}

}  // namespace

std::ostream& console_of(const RunOptions& options) {
  return options.console == nullptr ? std::cout : *options.console;
}

int run_training(PreparedRun run, RunStart start, const Communicator& communicator,
                 const RunContext& context) {
  return once_begun([&] {
    try {
      return RankTraining(run, start, communicator, context).train();
    } catch (const std::exception&) {
      // Whichever file could not be written: that the folder was taken away is what explains it.
      if (start.lock) start.lock->require_held();
      throw;
    }
  });
}

}  // namespace kolo
