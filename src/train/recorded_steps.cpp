#include "train/recorded_steps.h"

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

}  // namespace kolo
