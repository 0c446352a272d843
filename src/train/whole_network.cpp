#include "train/whole_network.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kolo/base/error.h"
#include "kolo/base/generators.h"
#include "kolo/base/random.h"
#include "kolo/train/network_stages.h"
#include "train/batch_parts.h"
#include "train/device_batches.h"
#include "train/evaluation.h"

namespace kolo {

WholeNetwork::WholeNetwork(Communicator communicator, std::shared_ptr<Network> network,
                           Objective objective, const TrainerOptions& options)
    : communicator_(std::move(communicator)),
      network_(std::move(network)),
      module_(network_),
      objective_(std::move(objective)),
      mixing_{options.mixup_alpha, options.seed, options.replica.value_or(communicator_.rank())},
      is_in_parts_(options.virtual_ranks > 0),
      accumulation_(options.accumulation),
      device_(device_of(*network_)) {
  const bool is_recorded = options.graphs && !device_.is_cpu();
  require_no_conflicts("train", {{StepFeature::virtual_ranks, is_in_parts_},
                                 {StepFeature::accumulation, accumulation_ > 1},
                                 {StepFeature::graphs, is_recorded},
                                 {StepFeature::mixup, options.mixup_alpha > 0},
                                 {StepFeature::recompute, options.recompute}});
  if (options.recompute)
    recomputed_ = training_stages(objective_, network_->stages(), {.recompute = true});
  if (is_recorded) recorded_steps_ = std::make_unique<RecordedSteps>();
}

TrainingStep::UnderWay WholeNetwork::begin(TrainingStep& training, const Step& step) {
  if (is_in_parts_) return begin_in_parts(training, step);
  seed_for(communicator_.rank(), step.number - 1);
  if (accumulation_ > 1) return begin_accumulating(training, step);
  // What the ranks add up once per step is on its way while backward runs.
  const auto forward = [this, number = step.number,
                        stop_flag = step.stop_flag](const Batch& batch) -> TrainingStep::Forward {
    const BatchTask task(objective_, batch, mixing_, number - 1);
    const auto [loss, sums] = task.measure(outputs_of(task.inputs()));
    return {loss, torch::cat({sums, stop_flag})};
  };
  if (recorded_steps_)
    return recorded_steps_->begin(training, step.batch, forward, step.learning_rate, step.number);
  return training.begin([&] { return forward(step.batch); }, step.learning_rate, step.number);
}

// A part's mean loss counts by its share of the samples, so that the sum of the gradients is that
// of the batch's mean.
TrainingStep::UnderWay WholeNetwork::begin_accumulating(TrainingStep& training, const Step& step) {
  const auto passes = [&](const PipelineStep::Backward& backward) {
    const BatchTask task(objective_, step.batch, mixing_, step.number - 1);
    const auto samples = step.batch.input.size(0);
    const auto count = std::min(accumulation_, samples);
    torch::Tensor total;
    for (std::int64_t number = 0; number < count; ++number) {
      const auto first = number * samples / count, end = (number + 1) * samples / count;
      std::optional<GradientReducer::NoSync> quiet;
      if (number + 1 < count) quiet.emplace(backward.reducer->no_sync());
      const auto part = task.part(first, end - first);
      const auto [loss, sums] = part.measure(outputs_of(part.inputs()));
      const auto share = static_cast<double>(end - first) / static_cast<double>(samples);
      const auto weighted = loss * share;
      (backward.scaled ? backward.scaled(weighted) : weighted).backward();
      total = total.defined() ? total.add_(sums) : sums;
    }
    return torch::cat({total, step.stop_flag});
  };
  return training.begin(TrainingStep::GradientPasses(passes), step.learning_rate, step.number);
}

TrainingStep::UnderWay WholeNetwork::begin_in_parts(TrainingStep& training, const Step& step) {
  const auto parts = training.parts();
  const auto no_flag = torch::zeros_like(step.stop_flag);
  const auto forward = [&](int part) -> TrainingStep::Forward {
    seed_for(part, step.number - 1);
    auto mixing = mixing_;
    mixing.replica = part;
    const auto batch = part_of(step.batch, static_cast<std::size_t>(part - parts.first));
    const BatchTask task(objective_, batch, mixing, step.number - 1);
    const auto [loss, sums] = task.measure(outputs_of(task.inputs()));
    return {loss, torch::cat({sums, part == parts.first ? step.stop_flag : no_flag})};
  };
  return training.begin(TrainingStep::ForwardOfPart(forward), step.learning_rate, step.number);
}

torch::Tensor WholeNetwork::outputs_of(const torch::Tensor& inputs) {
  if (recomputed_.empty()) return forward_for(objective_, *network_, inputs);
  return run_stages(recomputed_, {inputs}).front();
}

torch::Tensor WholeNetwork::measure(const Batch& batch) {
  return validation_sums(objective_, forward_for_validation(objective_, *network_, batch.input),
                         batch.target);
}

// A step's dropout masks depend on nothing that came before, so a resumed run draws the same ones
// and no generator state is saved.
void WholeNetwork::seed_for(int rank, std::int64_t steps_before) const {
  seed_generators(derive_seed(mixing_.seed, static_cast<std::uint32_t>(rank),
                              static_cast<std::uint64_t>(steps_before)),
                  device_);
}

}  // namespace kolo
