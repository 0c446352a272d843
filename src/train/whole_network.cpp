#include "train/whole_network.h"

#include <algorithm>
#include <utility>

#include "kolo/base/generators.h"
#include "kolo/base/random.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/train/objective.h"
#include "train/batch_task.h"
#include "train/evaluation.h"

namespace kolo {

namespace {

// In which cuDNN tries its algorithms, and everything that is kept is allocated.
constexpr std::int64_t steps_before_recording = 3;

bool is_alike(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

}  // namespace

bool RecordedSteps::fits(const Batch& batch) const {
  return is_alike(batch.input, fixed_->input) && is_alike(batch.target, fixed_->target);
}

TrainingStep::Pending RecordedSteps::make(TrainingStep& step, const Batch& batch, const Pass& pass,
                                          double learning_rate, std::int64_t number) {
  if (!fixed_)
    fixed_ = Batch{torch::empty_like(batch.input), torch::empty_like(batch.target), {}, 0};
  if (!fits(batch) || ++steps_before_ <= steps_before_recording) {
    step.begin(number);
    pass(batch);
    return step.finish(learning_rate);
  }
  fixed_->input.copy_(batch.input);
  fixed_->target.copy_(batch.target);
  if (!recorded_) recorded_ = step.record([this, pass] { pass(*fixed_); }, learning_rate, number);
  return step.replay(*recorded_, learning_rate, number);
}

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
  if (options.recompute) recomputed_ = training_stages(objective_, network_->stages(), true);
  if (is_recorded) recorded_steps_ = std::make_unique<RecordedSteps>();
}

// In one pass, or in several over parts of the batch (TrainerOptions::accumulation): a part's mean
// loss counts by its share of the samples, so that the sum of the gradients is that of the batch's
// mean.
TrainingStep::Pending WholeNetwork::make(TrainingStep& training, const Step& step) {
  if (is_in_parts_) return make_parts(training, step);
  seed_for(communicator_.rank(), step.number - 1);
  if (recorded_steps_) return make_recorded(training, step);
  training.begin(step.number);
  const BatchTask batch(objective_, step.batch, mixing_, step.number - 1);
  const auto samples = step.batch.input.size(0);
  const auto passes = std::max<std::int64_t>(1, std::min(accumulation_, samples));
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const auto first = pass * samples / passes, count = (pass + 1) * samples / passes - first;
    const auto [loss, sums] = forward(passes == 1 ? batch : batch.part(first, count));
    const auto share = passes == 1 ? 1. : static_cast<double>(count) / static_cast<double>(samples);
    const auto flag = pass == 0 ? step.stop_flag : torch::zeros_like(step.stop_flag);
    training.backward(loss, torch::cat({sums, flag}), share, pass + 1 == passes);
  }
  return training.finish(step.learning_rate);
}

// A pass for each virtual rank of this rank's, with its samples and random numbers.
TrainingStep::Pending WholeNetwork::make_parts(TrainingStep& training, const Step& step) {
  training.begin(step.number);
  const auto no_flag = torch::zeros_like(step.stop_flag);
  const auto parts = training.parts();
  for (int part = parts.first; part < parts.end; ++part) {
    seed_for(part, step.number - 1);
    auto mixing = mixing_;
    mixing.replica = part;
    const auto batch = part_of(step.batch, static_cast<std::size_t>(part - parts.first));
    const auto [loss, sums] = forward({objective_, batch, mixing, step.number - 1});
    training.backward(loss, torch::cat({sums, part == parts.first ? step.stop_flag : no_flag}), 1,
                      part + 1 == parts.end);
  }
  return training.finish(step.learning_rate);
}

TrainingStep::Pending WholeNetwork::make_recorded(TrainingStep& training, const Step& step) {
  const auto pass = [this, &training, number = step.number,
                     stop_flag = step.stop_flag](const Batch& batch) {
    const auto [loss, sums] = forward({objective_, batch, mixing_, number - 1});
    training.backward(loss, torch::cat({sums, stop_flag}));
  };
  return recorded_steps_->make(training, step.batch, pass, step.learning_rate, step.number);
}

BatchTask::Result WholeNetwork::forward(const BatchTask& task) {
  return in_phase("forward", device_, [&] { return task.measure(outputs_of(task.inputs())); });
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
