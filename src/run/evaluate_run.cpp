#include "kolo/run/evaluate_run.h"

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/config/factories.h"
#include "kolo/data/loader.h"
#include "kolo/train/objective.h"
#include "kolo/train/observe/progress.h"
#include "run/launch/terminal.h"
#include "run/rank_job.h"
#include "run/trained_run.h"
#include "run/work_part.h"

namespace kolo {

namespace {

const std::shared_ptr<const Dataset>& split_of(const Datasets& datasets, const std::string& split) {
  return split == "training" ? datasets.training : datasets.validation;
}

// Keeps the virtual ranks of the training, and its cut of samples, where the number of ranks allows
// it.
RunConfig with_layout_for(RunConfig config, int ranks) {
  if (ranks > config.training.virtual_ranks) config.training.virtual_ranks = 0;
  auto& parallel = config.parallel;
  parallel = {.spatial = parallel.spatial};
  std::int64_t taken = 1;
  for (const auto length : parallel.spatial) taken *= length;
  if (ranks % taken != 0) parallel.spatial.clear();
  return config;
}

// Targets that are told apart, in the order of their numbers: arrays, and of each the numbers or
// channels where there are 2 to 16. Two lengths are a plane.
std::vector<TargetErrors> targets_of(const SampleLayout& layout,
                                     const std::vector<std::string>& names) {
  constexpr std::int64_t most_told_apart = 16;
  auto arrays = layout.target_shapes;
  if (arrays.empty()) arrays.push_back(layout.target_shape);
  std::vector<TargetErrors> targets;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto& shape = arrays[i];
    const bool is_told_apart = !shape.empty() && shape.size() != 2 && shape[0] <= most_told_apart;
    const auto count = is_told_apart ? shape[0] : 1;
    const auto numbers = checked_product(std::span<const std::int64_t>(shape)) / count;
    const bool has_channel_names = arrays.size() == 1 && std::cmp_equal(names.size(), count);
    const auto array = names.size() == arrays.size() ? names[i] : fmt::to_string(i);
    for (std::int64_t k = 0; k < count; ++k) {
      auto name = count == 1 ? array : fmt::format("{}[{}]", array, k);
      if (has_channel_names) name = names[static_cast<std::size_t>(k)];
      if (arrays.size() == 1 && names.empty()) name = fmt::to_string(k);
      targets.push_back({std::move(name), numbers, {}});
    }
  }
  return targets;
}

// Measures a batch beside its loss. A loss of one's own may take outputs of other shapes.
void measure_batch(const torch::Tensor& outputs, const torch::Tensor& targets,
                   RunEvaluation& result) {
  if (result.matrix) result.matrix->add(outputs, targets);
  if (outputs.sizes() != targets.sizes()) return;
  std::int64_t first = 0;
  for (auto& each : result.errors) {
    const auto part = [&](const torch::Tensor& all) {
      return all.reshape({all.size(0), -1}).narrow(1, first, each.numbers);
    };
    each.sums.add(error_sums(part(outputs), part(targets)));
    first += each.numbers;
  }
}

// Collective.
void add_up_ranks(const Communicator& communicator, RunEvaluation& result) {
  if (result.matrix)
    communicator.all_reduce(result.matrix->counts(), ReduceOp::sum, {.name = "confusion matrix"});
  if (result.errors.empty()) return;
  std::vector<ErrorSums> mine;
  for (auto& each : result.errors) mine.push_back(std::exchange(each.sums, {}));
  std::vector<ErrorSums> all(mine.size() * static_cast<std::size_t>(communicator.size()));
  const auto numbers_of = [](std::vector<ErrorSums>& sums) {
    constexpr std::size_t numbers = 5;  // doubles alone, one after another
    static_assert(std::is_standard_layout_v<ErrorSums> &&
                  sizeof(ErrorSums) == numbers * sizeof(double));
    return Buffer(sums.data(), narrow<std::int64_t>(numbers * sums.size()), DataType::float64);
  };
  communicator.all_gather(numbers_of(mine), numbers_of(all), {.name = "errors"});
  for (std::size_t i = 0; i < all.size(); ++i) result.errors[i % mine.size()].sums.add(all[i]);
  std::erase_if(result.errors, [](const TargetErrors& each) { return each.sums.values == 0; });
}

// Collective.
MetricSums measure(const Communicator& communicator, const TrainedModel& trained,
                   const RunConfig& config, const WorkPart& share, const Objective& objective,
                   const RunOptions& options, RunEvaluation& result) {
  const auto subsets = share_datasets(share, trained.datasets);
  const auto& dataset = split_of(subsets, result.split);
  const auto loader =
      make_validation_loader(config, dataset, share.replica, share.replicas, share.replicas_here);
  if (!result.matrix) result.errors = targets_of(dataset->layout(), result.target_names);
  EvaluationProgress progress;
  std::optional<ProgressBar> bar;
  if (communicator.rank() == 0 && options.console == nullptr) {
    make_bar(bar);
    bar->start(result.split, loader->batches());
    progress = [&](std::int64_t done, std::int64_t) { bar->update(done, {}); };
  }
  const auto sums = once_begun([&] {
    const auto all = evaluate(
        communicator, *trained.network, objective, *loader,
        [&](const torch::Tensor& outputs, const torch::Tensor& targets) {
          measure_batch(outputs, targets, result);
        },
        progress, config.training.virtual_ranks);
    add_up_ranks(communicator, result);
    return all;
  });
  if (bar) bar->clear();
  return sums;
}

SampleOutput compute_sample(const TrainedModel& trained, const Dataset& dataset,
                            const torch::Device& device, std::int64_t index) {
  const auto& layout = dataset.layout();
  SampleOutput sample{.index = index};
  const auto make_room = [](SampleNumbers& numbers, const std::vector<std::int64_t>& shape) {
    numbers.shape = shape;
    numbers.values.resize(
        static_cast<std::size_t>(checked_product(std::span<const std::int64_t>(shape))));
  };
  make_room(sample.input, layout.input_shape);
  const bool has_classes = layout.classes > 0;
  if (!has_classes) make_room(sample.target, layout.target_shape);
  dataset.read(
      index, 0,
      {sample.input.values, has_classes ? std::span(&sample.label, 1) : std::span<std::int64_t>(),
       sample.target.values});
  const auto input = torch::from_blob(sample.input.values.data(), sample.input.shape);
  const auto batch = input.unsqueeze(0).to(device);
  auto output = forward_for(*trained.objective, *trained.network, batch)[0].to(torch::kFloat);
  if (has_classes) output = class_probabilities(output.unsqueeze(0))[0];
  output = output.to(torch::kCPU).contiguous();
  const auto* const begin = output.data_ptr<float>();
  sample.output = {output.sizes().vec(), {begin, begin + output.numel()}};
  return sample;
}

// Computes samples with one rank's whole network.
std::vector<SampleOutput> compute_samples(const TrainedModel& trained, const Dataset& dataset,
                                          const torch::Device& device, std::int64_t count) {
  const torch::NoGradGuard no_gradient;
  trained.network->eval();
  std::vector<SampleOutput> samples;
  const auto size = dataset.size();
  const auto taken = std::min(count, size);
  for (std::int64_t i = 0; i < taken; ++i)
    samples.push_back(compute_sample(trained, dataset, device, i * size / taken));
  return samples;
}

// Collective.
RunEvaluation evaluate_checkpoint(const EvaluationRequest& request, TrainedModel& trained,
                                  const Communicator& communicator, const RunOptions& options) {
  const auto& dataset = *split_of(trained.datasets, request.split);
  const auto device = load_trained_network(communicator, trained);
  RunEvaluation result{.model = trained.config.model.name,
                       .checkpoint = trained.checkpoint.string(),
                       .split = request.split,
                       .step = trained.step,
                       .epoch = trained.epoch,
                       .ranks = communicator.size(),
                       .class_names = trained.datasets.class_names,
                       .input_names = trained.datasets.input_names,
                       .target_names = trained.datasets.target_names};
  const auto classes = dataset.layout().classes;
  if (classes > 0) result.matrix.emplace(classes);
  if (communicator.rank() == 0 && request.samples > 0)
    result.samples = compute_samples(trained, dataset, device, request.samples);
  const auto config = with_layout_for(trained.config, communicator.size());
  const auto share = part_of_work(config, communicator);
  share_network(share, trained.datasets, *trained.network);
  auto objective = *trained.objective;
  share_objective(share, trained.datasets, objective);
  if (classes > 5) objective.top = 5;
  result.top = objective.top;
  result.sums = measure(communicator, trained, config, share, objective, options, result);
  return result;
}

TrainedJob job_of(const EvaluationRequest& request) {
  return {.command = "eval",
          .path = request.path,
          .checkpoint = request.checkpoint,
          .overrides = request.overrides};
}

}  // namespace

RunConfig check_evaluation(const EvaluationRequest& request, const RunComponents& components) {
  return check_trained(job_of(request), components);
}

int evaluate_run(const EvaluationRequest& request,
                 const std::function<void(const RunEvaluation&)>& report,
                 const RunComponents& components, const RunOptions& options) {
  auto job = job_of(request);
  job.work = [&](TrainedModel& trained, const Communicator& communicator) {
    const auto result = evaluate_checkpoint(request, trained, communicator, options);
    if (communicator.rank() == 0) report(result);
  };
  return run_trained(job, components, options);
}

}  // namespace kolo
