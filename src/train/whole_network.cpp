#include "train/whole_network.h"

#include <utility>

#include "kolo/base/error.h"
#include "kolo/base/generators.h"
#include "kolo/base/random.h"
#include "kolo/train/network_stages.h"
#include "train/device_batches.h"

namespace kolo {

WholeNetwork::WholeNetwork(Communicator communicator, std::shared_ptr<Network> network,
                           Objective objective, const TrainerOptions& options)
    : communicator_(std::move(communicator)),
      network_(std::move(network)),
      module_(network_),
      objective_(std::move(objective)),
      mixing_{options.mixup_alpha, options.seed, options.replica.value_or(communicator_.rank())},
      device_(device_of(*network_)) {
  if (options.recompute)
    recomputed_ = training_stages(objective_, network_->stages(), {.recompute = true});
  if (!options.graphs || device_.is_cpu()) return;
  if (options.mixup_alpha > 0)
    throw Error("train: steps with mixup can't be recorded as graphs: their numbers differ");
  recorded_steps_ = std::make_unique<RecordedSteps>();
}

TrainingStep::UnderWay WholeNetwork::begin(TrainingStep& training, const Step& step) {
  seed_for(step.number - 1);
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

torch::Tensor WholeNetwork::outputs_of(const torch::Tensor& inputs) {
  if (recomputed_.empty()) return forward_for(objective_, *network_, inputs);
  return run_stages(recomputed_, {inputs}).front();
}

torch::Tensor WholeNetwork::measure(const Batch& batch) {
  return validation_sums(objective_, forward_for(objective_, *network_, batch.input), batch.target);
}

// A step's dropout masks depend on nothing that came before, so a resumed run draws the same ones
// and no generator state is saved.
void WholeNetwork::seed_for(std::int64_t steps_before) const {
  seed_generators(derive_seed(mixing_.seed, static_cast<std::uint32_t>(communicator_.rank()),
                              static_cast<std::uint64_t>(steps_before)),
                  device_);
}

}  // namespace kolo
