#include "kolo/run/evaluate_run.h"

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/launch/launch_environment.h"
#include "kolo/observe/progress.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/train/objective.h"
#include "launch/terminal.h"
#include "run/prepared_run.h"
#include "run/rank_guard.h"
#include "run/rank_job.h"
#include "run/resume.h"
#include "run/run_device.h"
#include "run/run_folder.h"
#include "run/work_share.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// What is measured: a run, and one of its checkpoints where the path is one.
struct Subject {
  RunFolder run;
  std::optional<fs::path> checkpoint;
};

Subject find_subject(const EvaluationRequest& request) {
  const fs::path path = fs::absolute(request.path).lexically_normal();
  if (fs::exists(path / "manifest.json")) {
    const fs::path clean = path.has_filename() ? path : path.parent_path();
    return {{clean.parent_path().parent_path()}, clean};
  }
  const RunFolder run{path};
  if (!fs::exists(run.config())) {
    throw InputError(
        fmt::format("eval: {} is neither a run's folder, which holds config.yaml, nor one of its "
                    "checkpoints, which holds manifest.json",
                    request.path.string()));
  }
  return {run, std::nullopt};
}

fs::path find_checkpoint(const EvaluationRequest& request, const Subject& subject) {
  if (subject.checkpoint) return *subject.checkpoint;
  // A run without validation has no best one.
  const bool is_newest = request.checkpoint == "best" && !subject.run.checkpoint_store().best();
  return find_checkpoint(subject.run,
                         is_newest ? std::string(newest_checkpoint) : request.checkpoint);
}

// The data is read as in validation: whole, in order, never varied (make_datasets).
RunConfig load(const EvaluationRequest& request, const Subject& subject, const RunParts& parts) {
  ConfigSource source{subject.run.config(), std::nullopt, request.overrides};
  source.is_record = true;
  return load_run_config(source, parts.models);
}

struct PreparedEvaluation {
  RunConfig config;
  Datasets datasets;
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<Network> network;
  Objective objective;
  fs::path checkpoint;  // of rank 0, which looks for it and reads it
};

PreparedEvaluation prepare(const EvaluationRequest& request, const Subject& subject,
                           const RunConfig& config, const RunParts& parts, bool is_root) {
  PreparedEvaluation prepared{.config = config};
  if (is_root) prepared.checkpoint = find_checkpoint(request, subject);
  require_device(config);
  if (!wants_gpu(config.device)) require_precision(config.training.precision);
  const DataReading reading{.looks_at_files = is_root, .varies = false};
  prepared.datasets =
      parts.datasets ? parts.datasets(config, reading) : make_datasets(config, reading);
  const auto& datasets = prepared.datasets;
  prepared.dataset = request.split == "training" ? datasets.training : datasets.validation;
  prepared.network = make_network(config, prepared.dataset->layout(), parts.models);
  prepared.objective = parts.objective ? parts.objective(config) : make_objective(config);
  return prepared;
}

// Ranks share samples as they did in training, where they can; otherwise each has whole ones.
RunConfig with_layout_for(RunConfig config, int ranks) {
  auto& parallel = config.parallel;
  parallel = {.spatial = parallel.spatial};
  std::int64_t taken = 1;
  for (const auto length : parallel.spatial) taken *= length;
  if (ranks % taken != 0) parallel.spatial.clear();
  return config;
}

// Collective.
MetricSums measure(const Communicator& communicator, const PreparedEvaluation& prepared,
                   const WorkShare& share, const Objective& objective, const RunOptions& options,
                   RunEvaluation& result) {
  const auto parts = share_datasets(share, prepared.datasets);
  const auto loader = make_validation_loader(
      prepared.config, result.split == "training" ? parts.training : parts.validation,
      share.replica, share.replicas);
  EvaluationProgress progress;
  std::optional<ProgressBar> bar;
  if (communicator.rank() == 0 && options.console == nullptr) {
    const auto shown = progress_options_from_environment();
    bar.emplace(progress_stream(shown), shown);
    bar->start(result.split, loader->batches());
    progress = [&](std::int64_t done, std::int64_t) { bar->update(done, {}); };
  }
  const auto sums = once_begun([&] {
    return evaluate(communicator, *prepared.network, objective, *loader,
                    result.matrix ? &*result.matrix : nullptr, progress);
  });
  if (bar) bar->clear();
  return sums;
}

// Collective.
RunEvaluation evaluate_checkpoint(const EvaluationRequest& request,
                                  const PreparedEvaluation& prepared,
                                  const Communicator& communicator, const RunOptions& options) {
  RunEvaluation result{.model = prepared.config.model.name,
                       .checkpoint = prepared.checkpoint.string(),
                       .split = request.split,
                       .ranks = communicator.size(),
                       .class_names = prepared.datasets.class_names};
  const auto classes = prepared.dataset->layout().classes;
  if (classes > 0) result.matrix.emplace(classes);
  if (communicator.rank() == 0) {
    const auto loaded = load_named(prepared.checkpoint, CheckpointReading::whole);
    load_network(loaded.content, *prepared.network);
    result.step = loaded.step;
    result.epoch = loaded.content.state.value("epoch", std::int64_t{0});
  }
  const auto device = start_device(prepared.config.device, communicator);
  move_network(*prepared.network, prepared.config.device, device);
  broadcast_parameters(communicator, *prepared.network);
  broadcast_buffers(communicator, *prepared.network);
  const auto share =
      share_work(with_layout_for(prepared.config, communicator.size()), communicator);
  share_network(share, prepared.datasets, *prepared.network);
  auto objective = prepared.objective;
  share_objective(share, prepared.datasets, objective);
  if (classes > 5) objective.top = 5;
  result.top = objective.top;
  result.sums = measure(communicator, prepared, share, objective, options, result);
  return result;
}

}  // namespace

RunConfig check_evaluation(const EvaluationRequest& request, const RunParts& parts) {
  const auto subject = find_subject(request);
  auto config = load(request, subject, parts);
  (void)prepare(request, subject, config, parts, true);
  return config;
}

int evaluate_run(const EvaluationRequest& request,
                 const std::function<void(const RunEvaluation&)>& report, const RunParts& parts,
                 const RunOptions& options) {
  const auto environment = detect_launch_environment();
  keep_freed_memory();
  Subject subject;
  RunConfig config;
  std::optional<PreparedEvaluation> prepared;
  RankJob job;
  job.communicator = options.communicator;
  job.configure = [&] {
    subject = find_subject(request);
    config = load(request, subject, parts);
    set_threads(config.device, environment);
    return config.communication;
  };
  job.prepare = [&](int rank, int /*ranks*/) {
    prepared = prepare(request, subject, config, parts, rank == 0);
    return facts_of(config, prepared->datasets);
  };
  job.run = [&](const Communicator& communicator) {
    const auto result = evaluate_checkpoint(request, *prepared, communicator, options);
    if (communicator.rank() == 0) report(result);
    return 0;
  };
  return run_rank_job(environment, job);
}

}  // namespace kolo
