#include <memory>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/training_step.h"
#include "parallel/device_graph.h"

// A step that is recorded once and replayed: CUDA's graphs.
namespace kolo {

// Rate and number are those of the step that is being made. The numbers lie in the same place each
// time where the device has graphs.
class TrainingStep::Recorded {
 public:
  std::unique_ptr<parallel::DeviceGraph> graph;
  double learning_rate = 0;
  std::int64_t number = 0;
  torch::Tensor numbers;
};

std::shared_ptr<TrainingStep::Recorded> TrainingStep::record(const std::function<void()>& passes,
                                                             double learning_rate,
                                                             std::int64_t number) {
  auto features = features_of(settings_);
  features.set(StepFeature::graphs);
  require_no_conflicts("parallel", features);
  const auto ranks = arena_->gradient_communicator(communicator_);
  if (arena_->device().is_cuda() && ranks.size() > 1 &&
      !ranks.capabilities().hands_over_to_devices) {
    throw Error(fmt::format(
        "parallel: a step whose gradients are averaged through {} can't be recorded as a CUDA "
        "graph: the host takes part in it. NCCL's can (communication.device_channel=nccl); "
        "device.graphs=false does without",
        ranks.capabilities().device_transport));
  }
  auto recorded = std::make_shared<Recorded>();
  recorded->learning_rate = learning_rate;
  recorded->number = number;
  // Now, since a copy that is recorded would be repeated with every replay.
  optimizer_->prepare(learning_rate, number);
  // The graph must not keep its owner alive.
  recorded->graph = parallel::record_graph(arena_->device(), [this, passes, to = recorded.get()] {
    begin(to->number);
    passes();
    to->numbers = complete(to->learning_rate);
  });
  return recorded;
}

TrainingStep::Pending TrainingStep::replay(Recorded& recorded, double learning_rate,
                                           std::int64_t number) {
  const auto phase = settings_.timeline.span("recorded step");
  recorded.learning_rate = learning_rate;
  recorded.number = number;
  optimizer_->prepare(learning_rate, number);
  recorded.graph->replay();
  Pending pending(number, LateNumbers(recorded.numbers));
  if (communicator_.size() > 1) {
    const auto present = std::make_shared<std::int32_t>(1);
    pending.meeting_ = arena_->gradient_communicator(communicator_)
                           .all_reduce_async(std::span(present.get(), 1), ReduceOp::min,
                                             {.name = "recorded step", .owner = present});
  }
  return pending;
}

}  // namespace kolo
