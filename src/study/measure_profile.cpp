#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>

#include "kolo/base/checked.h"
#include "kolo/base/statistics.h"
#include "kolo/parallel/bucket_plan.h"
#include "kolo/parallel/device_clock.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/initialize.h"
#include "kolo/study/measure.h"

namespace kolo {

namespace {

// When the parts of a training step were done, in seconds.
struct RecordedStep {
  double forward = 0;
  double backward = 0;
  double rest = 0;            // after the last gradient
  std::vector<double> ready;  // by bucket, from backward's beginning: its last gradient
};

// Takes the times of a trainer's steps: it tells between forward and backward, and hooks after its
// own on the parameters tell when gradients are ready. To be made after the trainer; the network
// has the hooks for good. Moments are read some steps later, so that nobody waits for a device.
class StepRecorder {
 public:
  StepRecorder(const Network& network, DeviceClock clock);

  // Around a step.
  void begin();
  void forward_is_done() { step_->backward = clock_.now(); }
  void end() { step_->end = clock_.now(); }

  // Of all steps. Waits for the device.
  [[nodiscard]] std::vector<RecordedStep> times(const BucketPlan& plan) const;

 private:
  using Moment = DeviceClock::Moment;
  struct Moments {
    Moment begin, backward, end;
    std::vector<Moment> ready;  // by gradient; unknown: it had none
  };
  struct Gradient {
    std::string name;
    // Keeps the hook, which autograd would drop together with it.
    GraphNode accumulator;
  };

  [[nodiscard]] RecordedStep times_of(const Moments& step, const BucketPlan& plan) const;

  DeviceClock clock_;
  std::vector<Gradient> gradients_;
  std::vector<Moments> done_;
  std::shared_ptr<Moments> step_;  // the one that is under way
};

StepRecorder::StepRecorder(const Network& network, DeviceClock clock)
    : clock_(std::move(clock)), step_(std::make_shared<Moments>()) {
  for (const auto& parameter : network.named_parameters()) {
    if (!parameter.value().requires_grad()) continue;
    const auto index = gradients_.size();
    auto accumulator = call_after_accumulation(
        parameter.value(), [clock = clock_, weak = std::weak_ptr(step_), index] {
          if (const auto step = weak.lock()) step->ready[index] = clock.now();
        });
    gradients_.push_back({parameter.key(), std::move(accumulator)});
  }
}

void StepRecorder::begin() {
  if (step_->end.is_known()) done_.push_back(std::move(*step_));
  *step_ = {};
  step_->ready.resize(gradients_.size());
  step_->begin = clock_.now();
}

std::vector<RecordedStep> StepRecorder::times(const BucketPlan& plan) const {
  std::vector<RecordedStep> steps;
  for (const auto& step : done_) steps.push_back(times_of(step, plan));
  if (step_->end.is_known()) steps.push_back(times_of(*step_, plan));
  return steps;
}

RecordedStep StepRecorder::times_of(const Moments& step, const BucketPlan& plan) const {
  std::map<std::string, double> ready;  // since backward began
  double last = 0;
  for (std::size_t index = 0; index < gradients_.size(); ++index) {
    const double seconds = step.ready[index].seconds_since(step.backward);
    ready[gradients_[index].name] = seconds;
    last = std::max(last, seconds);
  }
  RecordedStep times{step.backward.seconds_since(step.begin),
                     last,
                     step.end.seconds_since(step.backward) - last,
                     {}};
  // A bucket goes after those before it.
  double latest = 0;
  for (const auto& bucket : plan.buckets) {
    for (const auto& entry : bucket.entries)
      latest = std::max(latest, ready[plan.parameters[entry.parameter].name]);
    times.ready.push_back(latest);
  }
  return times;
}

// A standard deviation that a few outliers, as a busy machine makes them, don't change: 1.4826
// times the median distance from the median.
double robust_deviation(const std::vector<double>& values) {
  const double center = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - center));
  return 1.4826 * median(std::move(distances));
}

template <typename Time>
double median_of(const std::vector<RecordedStep>& steps, const Time& time) {
  std::vector<double> values;
  for (const auto& step : steps) values.push_back(time(step));
  return median(std::move(values));
}

// A device has the next step before it is done with the last one, as in a training.
std::vector<RecordedStep> record_steps(const Communicator& communicator, Trainer& trainer,
                                       const Network& network, const Batch& batch,
                                       const BenchPlan& plan) {
  for (std::int64_t step = 0; step < plan.warmup; ++step) {
    trainer.step(batch);
    plan.step_done();
  }
  StepRecorder recorder(network, DeviceClock(trainer.device(), plan.device_runtime));
  trainer.listen([&] { recorder.forward_is_done(); });
  for (std::int64_t step = 0; step < checked_multiply(plan.steps, plan.trials); ++step) {
    communicator.barrier();  // as averaging gradients makes all ranks begin a step together
    recorder.begin();
    trainer.step(batch);
    recorder.end();
    plan.step_done();
  }
  trainer.settle();
  trainer.listen({});
  return recorder.times(trainer.plan());
}

std::vector<double> computing_of(const std::vector<RecordedStep>& steps) {
  std::vector<double> seconds;
  for (const auto& step : steps) seconds.push_back(step.forward + step.backward + step.rest);
  return seconds;
}

// This rank's times, in the order of a profile's, and then the buckets'.
std::vector<double> times_of(const std::vector<RecordedStep>& steps) {
  std::vector<double> times = {
      median_of(steps, [](const RecordedStep& step) { return step.forward; }),
      median_of(steps, [](const RecordedStep& step) { return step.backward; }),
      median_of(steps, [](const RecordedStep& step) { return step.rest; }),
      robust_deviation(computing_of(steps))};
  for (std::size_t bucket = 0; bucket < steps.front().ready.size(); ++bucket)
    times.push_back(median_of(steps, [&](const RecordedStep& step) { return step.ready[bucket]; }));
  return times;
}

}  // namespace

StepProfile measure_profile(const Communicator& communicator, Trainer& trainer,
                            const Network& network, Loader& loader, const BenchPlan& plan) {
  const Batch batch = first_batch(loader);
  const auto steps = record_steps(communicator, trainer, network, batch, plan);
  auto times = times_of(steps), slowest = computing_of(steps);
  communicator.all_reduce(std::span(times), ReduceOp::average);
  communicator.all_reduce(std::span(slowest), ReduceOp::max);
  StepProfile profile;
  profile.device = device_name(trainer.device());
  const auto layout = rank_layout(communicator);
  profile.ranks = layout.ranks;
  profile.ranks_per_node = layout.ranks_per_node;
  profile.cores_per_node = layout.cores_per_node;
  profile.threads = at::get_num_threads();
  profile.batch_size = batch.input.size(0);
  profile.forward_seconds = times[0];
  profile.backward_seconds = times[1];
  profile.optimizer_seconds = times[2];
  profile.slowest_seconds = median(std::move(slowest));
  profile.deviation_seconds = times[3];
  auto ready = times.begin() + 4;
  for (const auto& bucket : trainer.plan().buckets) {
    profile.buckets.push_back(
        {checked_multiply(bucket.count, narrow<std::int64_t>(size_of(bucket.type))), *ready++});
  }
  return profile;
}

}  // namespace kolo
