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

// Seconds of a training step's parts: forward; backward, to its last gradient; the rest; and then
// by bucket, from backward's beginning, when its last gradient was ready.
using StepTimes = std::vector<double>;

// Takes the times of a trainer's steps: the trainer tells when forward is done, hooks on the
// parameters, after its own, when gradients are ready. Made after the trainer; the network keeps
// the hooks. Moments are read some steps later, so that nobody waits for a device.
class StepClock {
 public:
  StepClock(const Network& network, DeviceClock clock)
      : clock_(std::move(clock)), step_(std::make_shared<Moments>()) {
    for (const auto& parameter : network.named_parameters()) {
      if (!parameter.value().requires_grad()) continue;
      auto accumulator = call_after_accumulation(
          parameter.value(),
          [clock = clock_, weak = std::weak_ptr(step_), index = gradients_.size()] {
            if (const auto step = weak.lock()) step->ready[index] = clock.now();
          });
      gradients_.push_back({parameter.key(), std::move(accumulator)});
    }
  }

  // Called before a step, after its forward pass, and after it.
  void begin() {
    *step_ = {};
    step_->ready.resize(gradients_.size());
    step_->begin = clock_.now();
  }
  void forward_is_done() { step_->backward = clock_.now(); }
  void end() {
    step_->end = clock_.now();
    done_.push_back(std::move(*step_));
  }

  // Times of all steps, measured so far. Waits for the device.
  [[nodiscard]] std::vector<StepTimes> times(const BucketPlan& plan) const {
    std::vector<StepTimes> all;
    for (const auto& step : done_) {
      std::map<std::string, double> ready;  // since backward began
      double last = 0;
      for (std::size_t index = 0; index < gradients_.size(); ++index) {
        const double seconds = step.ready[index].seconds_since(step.backward);
        ready[gradients_[index].name] = seconds;
        last = std::max(last, seconds);
      }
      auto& times = all.emplace_back(StepTimes{step.backward.seconds_since(step.begin), last,
                                               step.end.seconds_since(step.backward) - last});
      // Buckets are sent in order.
      double latest = 0;
      for (const auto& bucket : plan.buckets) {
        for (const auto& entry : bucket.entries)
          latest = std::max(latest, ready[plan.parameters[entry.parameter].name]);
        times.push_back(latest);
      }
    }
    return all;
  }

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

  DeviceClock clock_;
  std::vector<Gradient> gradients_;
  std::vector<Moments> done_;
  std::shared_ptr<Moments> step_;  // the current step
};

// A standard deviation that the few outliers of a busy machine don't change: 1.4826 times the
// median distance from the median.
double robust_deviation(const std::vector<double>& values) {
  const double center = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - center));
  return 1.4826 * median(std::move(distances));
}

// Records steps without waiting for the device between them, as in a training.
std::vector<StepTimes> clock_steps(const Communicator& communicator, Trainer& trainer,
                                   const Network& network, const Batch& batch,
                                   const BenchPlan& plan) {
  for (std::int64_t step = 0; step < plan.warmup; ++step) {
    trainer.step(batch);
    plan.step_done();
  }
  StepClock recorder(network, DeviceClock(trainer.device(), plan.device_runtime));
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

}  // namespace

StepProfile measure_profile(const Communicator& communicator, Trainer& trainer,
                            const Network& network, Loader& loader, const BenchPlan& plan) {
  const Batch batch = first_batch(loader);
  const auto steps = clock_steps(communicator, trainer, network, batch, plan);
  std::vector<double> slowest, times;  // by step; by part, and then the deviation
  for (const auto& step : steps) slowest.push_back(step[0] + step[1] + step[2]);
  for (std::size_t part = 0; part < steps.front().size(); ++part) {
    std::vector<double> values;
    for (const auto& step : steps) values.push_back(step[part]);
    times.push_back(median(std::move(values)));
  }
  times.push_back(robust_deviation(slowest));
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
  profile.deviation_seconds = times.back();
  auto ready = times.begin() + 3;
  for (const auto& bucket : trainer.plan().buckets)
    profile.buckets.push_back(
        {checked_multiply(bucket.count, narrow<std::int64_t>(size_of(bucket.type))), *ready++});
  return profile;
}

}  // namespace kolo
