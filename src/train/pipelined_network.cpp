#include "kolo/train/pipelined_network.h"

#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/pipeline_stages.h"
#include "kolo/parallel/pipeline_state.h"
#include "kolo/train/objective.h"
#include "train/batches.h"

namespace kolo {

namespace {

std::vector<NetworkStage> whole_chain(const torch::nn::Module& network,
                                      std::vector<NetworkStage> stages) {
  require_whole_chain(network, stages);
  return stages;
}

std::vector<std::string> names_in(const torch::nn::Module& network) {
  std::vector<std::string> names;
  for (const auto& tensor : named_tensors_of(network)) names.push_back(tensor.name);
  return names;
}

}  // namespace

PipelinedNetwork::PipelinedNetwork(const DeviceMesh& mesh, const torch::nn::Module& network,
                                   std::vector<NetworkStage> stages, Objective objective,
                                   const PipelinedNetworkOptions& options)
    : mesh_(mesh),
      objective_(std::move(objective)),
      options_(options),
      parts_{mesh_.axis(MeshAxis::pipe), names_in(network)},
      pipeline_(
          mesh_,
          training_stages(objective_, whole_chain(network, std::move(stages)), options_.recompute),
          {.schedule = options_.schedule,
           .micro_batches = options_.micro_batches,
           .bounds = options_.bounds,
           .seed = options_.seed,
           .sums = metric_numbers,
           .timeline = options_.timeline}) {}

TrainingStep::Pending PipelinedNetwork::make(TrainingStep& training, const Step& step) {
  const auto samples = step.batch.input.size(0);
  const std::int64_t count = options_.micro_batches;
  if (samples % count != 0)
    throw Error(fmt::format("train: a batch of {} samples can't be cut in {} equal micro-batches",
                            samples, count));
  const auto part = [&](const torch::Tensor& whole, int number) {
    return whole.narrow(0, number * (samples / count), samples / count);
  };
  const PipelineStep::Batch batch{[&](int number) { return part(step.batch.input, number); },
                                  [&](const torch::Tensor& outputs, int number) {
                                    return training_numbers(objective_, outputs,
                                                            part(step.batch.target, number));
                                  }};
  training.begin(step.number);
  const auto sums = in_phase("forward and backward", training.arena()->device(), [&] {
    return pipeline_.run(batch, step.number, training.pipeline());
  });
  training.add(torch::cat({sums, step.stop_flag}));
  return training.finish(step.learning_rate);
}

torch::Tensor PipelinedNetwork::measure(const Batch& batch) {
  const auto samples = batch.input.size(0);
  const auto size = divide_up(samples, options_.micro_batches);
  const auto evaluate = [&](std::int64_t first, std::int64_t each, std::int64_t count) {
    const auto part = [=](const torch::Tensor& tensor, int number) {
      return tensor.narrow(0, first + number * each, each);
    };
    const PipelineStep::Batch parts{
        [&](int number) { return part(batch.input, number); },
        [&](const torch::Tensor& outputs, int number) -> PipelineStep::Loss {
          return {{}, validation_sums(objective_, outputs, part(batch.target, number))};
        }};
    return pipeline_.evaluate(parts, static_cast<int>(count));
  };
  const auto whole = samples / size, rest = samples % size;
  auto sums = evaluate(0, size, whole);
  if (rest > 0) sums.add_(evaluate(whole * size, rest, 1));
  return sums;
}

}  // namespace kolo
