#include "cli/bench/step_recorder.h"

#include <algorithm>
#include <map>

#include "kolo/parallel/accumulation_hook.h"

namespace kolo {

namespace {

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

StepRecorder::StepRecorder(const Network& network)
    : gradients_(std::make_shared<std::vector<Gradient>>()) {
  for (const auto& parameter : network.named_parameters()) {
    if (!parameter.value().requires_grad()) continue;
    const auto index = gradients_->size();
    auto accumulator =
        call_after_accumulation(parameter.value(), [weak = std::weak_ptr(gradients_), index] {
          if (const auto gradients = weak.lock()) (*gradients)[index].ready = Clock::now();
        });
    gradients_->push_back({parameter.key(), {}, std::move(accumulator)});
  }
}

void StepRecorder::begin() {
  begin_ = backward_ = Clock::now();
  for (auto& gradient : *gradients_) gradient.ready = begin_;
}

void StepRecorder::on_submit(const CollectiveCall& call) noexcept {
  if (call.name == "metrics") backward_ = Clock::now();
}

RecordedStep StepRecorder::end(const BucketPlan& plan) const {
  const auto now = Clock::now();
  std::map<std::string, Clock::time_point> ready;
  auto last = backward_;
  for (const auto& gradient : *gradients_) {
    ready[gradient.name] = gradient.ready;
    last = std::max(last, gradient.ready);
  }
  RecordedStep step{
      seconds(backward_ - begin_), seconds(last - backward_), seconds(now - last), {}};
  // A bucket goes after those before it.
  auto latest = backward_;
  for (const auto& bucket : plan.buckets) {
    for (const auto& entry : bucket.entries)
      latest = std::max(latest, ready[plan.parameters[entry.parameter].name]);
    step.ready.push_back(seconds(latest - backward_));
  }
  return step;
}

}  // namespace kolo
