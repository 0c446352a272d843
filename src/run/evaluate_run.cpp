#include "kolo/run/evaluate_run.h"

#include <algorithm>
#include <span>

#include "kolo/base/checked.h"
#include "kolo/base/machine.h"
#include "kolo/config/factories.h"
#include "kolo/data/box_files.h"
#include "kolo/data/loader.h"
#include "kolo/launch/launch_environment.h"
#include "kolo/nn/network.h"
#include "kolo/observe/progress.h"
#include "kolo/train/objective.h"
#include "launch/terminal.h"
#include "run/load_data.h"
#include "run/prepared_run.h"
#include "run/rank_guard.h"
#include "run/rank_job.h"
#include "run/run_device.h"
#include "run/trained_run.h"
#include "run/work_share.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

struct PreparedEvaluation {
  RunConfig config;
  Datasets datasets;
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<Network> network;
  Objective objective;
  fs::path checkpoint;  // of rank 0, which looks for it and reads it
};

// The data is read as in validation: whole, in order, never varied (make_datasets).
PreparedEvaluation prepare(const EvaluationRequest& request, const TrainedRun& subject,
                           const RunConfig& config, const RunParts& parts,
                           const RankPreparation& as) {
  const bool is_root = as.rank == 0;
  PreparedEvaluation prepared{.config = config};
  if (is_root) prepared.checkpoint = find_checkpoint(subject, request.checkpoint);
  require_device(config);
  if (!wants_gpu(config.device)) require_precision(config.training.precision);
  const DataReading reading{
      .looks_at_files = is_root, .varies = false, .loads_later = true, .survey = as.survey};
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
  const auto parts = share_datasets(share, prepared.datasets, prepared.config.data.bad_samples);
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

SampleOutput compute_sample(const PreparedEvaluation& prepared, const torch::Device& device,
                            std::int64_t index) {
  const auto& layout = prepared.dataset->layout();
  SampleOutput sample{.index = index};
  const auto make_room = [](SampleNumbers& numbers, const std::vector<std::int64_t>& shape) {
    numbers.shape = shape;
    numbers.values.resize(
        static_cast<std::size_t>(checked_product(std::span<const std::int64_t>(shape))));
  };
  make_room(sample.input, layout.input_shape);
  const bool has_classes = layout.classes > 0;
  if (!has_classes) make_room(sample.target, layout.target_shape);
  prepared.dataset->read(
      index, 0,
      {sample.input.values, has_classes ? std::span(&sample.label, 1) : std::span<std::int64_t>(),
       sample.target.values});
  const auto input = torch::from_blob(sample.input.values.data(), sample.input.shape);
  const auto batch = input.unsqueeze(0).to(device);
  auto output =
      forward_for_validation(prepared.objective, *prepared.network, batch)[0].to(torch::kFloat);
  if (has_classes) output = output.softmax(0);
  output = output.to(torch::kCPU).contiguous();
  const auto* const begin = output.data_ptr<float>();
  sample.output = {output.sizes().vec(), {begin, begin + output.numel()}};
  return sample;
}

// By one rank's whole network.
std::vector<SampleOutput> compute_samples(const PreparedEvaluation& prepared,
                                          const torch::Device& device, std::int64_t count) {
  const torch::NoGradGuard no_gradient;
  prepared.network->eval();
  std::vector<SampleOutput> samples;
  const auto size = prepared.dataset->size();
  const auto taken = std::min(count, size);
  for (std::int64_t i = 0; i < taken; ++i)
    samples.push_back(compute_sample(prepared, device, i * size / taken));
  return samples;
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
  if (prepared.config.data.name == "nbody") {
    result.input_names = channel_names(BoxField::nbody);
    result.target_names = channel_names(BoxField::hydro);
  }
  const auto classes = prepared.dataset->layout().classes;
  if (classes > 0) result.matrix.emplace(classes);
  TrainedPoint point;
  const auto device = load_trained_network(communicator, prepared.checkpoint,
                                           prepared.config.device, *prepared.network, point);
  if (communicator.rank() == 0 && request.samples > 0)
    result.samples = compute_samples(prepared, device, request.samples);
  result.step = point.step;
  result.epoch = point.epoch;
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
  const auto subject = find_trained_run("eval", request.path);
  auto config = load_trained_config(subject, request.overrides, parts.models);
  (void)prepare(request, subject, config, parts, {});
  return config;
}

int evaluate_run(const EvaluationRequest& request,
                 const std::function<void(const RunEvaluation&)>& report, const RunParts& parts,
                 const RunOptions& options) {
  const auto environment = detect_launch_environment();
  keep_freed_memory();
  TrainedRun subject;
  RunConfig config;
  std::optional<PreparedEvaluation> prepared;
  RankJob job;
  job.communicator = options.communicator;
  job.configure = [&] {
    subject = find_trained_run("eval", request.path);
    config = load_trained_config(subject, request.overrides, parts.models);
    set_threads(config.device, environment);
    return config.communication;
  };
  job.survey = [&] { return survey_data(config, parts); };
  job.prepare = [&](const RankPreparation& as) {
    prepared = prepare(request, subject, config, parts, as);
    return facts_of(config, prepared->datasets);
  };
  job.load = [&](const Communicator& communicator) { load_data(communicator, prepared->datasets); };
  job.run = [&](const Communicator& communicator) {
    const auto result = evaluate_checkpoint(request, *prepared, communicator, options);
    if (communicator.rank() == 0) report(result);
    return 0;
  };
  return run_rank_job(environment, job);
}

}  // namespace kolo
