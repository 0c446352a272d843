#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "kolo/data/loader.h"
#include "kolo/parallel/training_step.h"

namespace kolo {

// Gives a training's steps to the device as one graph where it can: the first batch's shape is
// recorded after a few steps, and batches of another one (the last of an epoch) go operator by
// operator.
class RecordedSteps {
 public:
  // Makes step number `number`. `pass` calls backward() of the step, and must do the same with
  // every batch. Collective: the ranks' batches have the same shape.
  using Pass = std::function<void(const Batch&)>;
  [[nodiscard]] TrainingStep::Pending make(TrainingStep& step, const Batch& batch, const Pass& pass,
                                           double learning_rate, std::int64_t number);

 private:
  [[nodiscard]] bool fits(const Batch& batch) const;

  std::optional<Batch> fixed_;  // which the graph reads
  std::int64_t steps_before_ = 0;
  std::shared_ptr<TrainingStep::Recorded> recorded_;
};

}  // namespace kolo
