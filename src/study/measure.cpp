#include "kolo/study/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/base/checked.h"
#include "kolo/base/clock.h"
#include "kolo/base/machine.h"
#include "kolo/base/statistics.h"
#include "kolo/comm/collective_call.h"
#include "kolo/parallel/bucket_plan.h"
#include "kolo/parallel/gradient_hook.h"

namespace kolo {

namespace {

// Batches without end: epoch after epoch.
class BatchStream {
 public:
  explicit BatchStream(Loader& loader) : loader_(loader) { loader_.start_epoch(epoch_); }

  [[nodiscard]] Batch next() {
    auto batch = loader_.next();
    if (!batch) {
      loader_.start_epoch(++epoch_);
      batch = loader_.next();
    }
    return std::move(batch.value());
  }

 private:
  Loader& loader_;
  std::int64_t epoch_ = 0;
};

// `step` does one and returns its samples; `finish_trial` adds what else is known of a trial.
std::vector<BenchTrial> measure(const Communicator& communicator, const BenchPlan& plan,
                                const std::function<std::int64_t()>& step,
                                const std::function<void()>& begin_trial,
                                const std::function<void(BenchTrial&)>& finish_trial) {
  for (std::int64_t i = 0; i < plan.warmup; ++i) {
    (void)step();
    plan.step_done();
  }
  communicator.barrier();
  std::vector<BenchTrial> trials;
  for (std::int64_t i = 0; i < plan.trials; ++i) {
    begin_trial();
    BenchTrial trial;
    const Stopwatch watch;
    for (std::int64_t done = 0; done < plan.steps; ++done) {
      trial.samples += static_cast<double>(step());
      plan.step_done();
    }
    trial.seconds = watch.seconds();
    finish_trial(trial);
    trials.push_back(trial);
  }
  return trials;
}

}  // namespace

Batch first_batch(Loader& loader) {
  return BatchStream(loader).next();
}

std::vector<BenchTrial> measure_loader(const Communicator& communicator, Loader& loader,
                                       const BenchPlan& plan) {
  BatchStream batches(loader);
  return measure(
      communicator, plan, [&] { return batches.next().input.size(0); }, [] {},
      [](BenchTrial& trial) { trial.data_seconds = trial.seconds; });
}

std::vector<BenchTrial> measure_steps(const Communicator& communicator, Trainer& trainer,
                                      Loader& loader, const BenchPlan& plan) {
  const Batch batch = first_batch(loader);
  return measure(
      communicator, plan,
      [&] {
        trainer.step(batch);
        return batch.input.size(0);
      },
      [&] { trainer.reset_communication(); },
      [&](BenchTrial& trial) {
        trial.communication_seconds = trainer.communication().exposed_seconds;
      });
}

std::vector<BenchTrial> measure_training(const Communicator& communicator, Trainer& trainer,
                                         Loader& loader, const BenchPlan& plan) {
  BatchStream batches(loader);
  return measure(
      communicator, plan,
      [&] {
        const Batch batch = batches.next();
        trainer.step(batch);
        return batch.input.size(0);
      },
      [&] {
        trainer.reset_communication();
        loader.reset_wait();
      },
      [&](BenchTrial& trial) {
        trial.communication_seconds = trainer.communication().exposed_seconds;
        trial.data_seconds = loader.wait_seconds();
      });
}

std::vector<std::vector<BenchTrial>> gather(const Communicator& communicator,
                                            const std::vector<BenchTrial>& mine) {
  std::vector<double> sent;
  for (const auto& trial : mine) {
    for (const double value :
         {trial.seconds, trial.samples, trial.data_seconds, trial.communication_seconds})
      sent.push_back(value);
  }
  std::vector<double> received(sent.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span<const double>(sent), std::span(received));
  std::vector<std::vector<BenchTrial>> all(static_cast<std::size_t>(communicator.size()));
  auto value = received.begin();
  for (auto& trials : all) {
    for (std::size_t i = 0; i < mine.size(); ++i, value += 4)
      trials.push_back({value[0], value[1], value[2], value[3]});
  }
  return all;
}

namespace {

// When the parts of a training step were done, in seconds.
struct RecordedStep {
  double forward = 0;
  double backward = 0;
  double rest = 0;            // after the last gradient
  std::vector<double> ready;  // by bucket, from backward's beginning: its last gradient
};

// Watches a trainer's steps from outside: hooks after the trainer's own on the parameters tell
// when gradients are ready, and the sum of the metrics, which a trainer asks for between forward
// and backward, when those change. To be made after the trainer, and added to its communicator's
// listeners; the network has the hooks for good.
class StepRecorder final : public CollectiveListener {
 public:
  explicit StepRecorder(const Network& network);

  // Around a step.
  void begin();
  [[nodiscard]] RecordedStep end(const BucketPlan& plan) const;

  void on_submit(const CollectiveCall& call) noexcept override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Gradient {
    std::string name;
    Clock::time_point ready;
    // Keeps the hook, which autograd would drop together with it.
    GraphNode accumulator;
  };

  std::shared_ptr<std::vector<Gradient>> gradients_;
  Clock::time_point begin_;
  Clock::time_point backward_;
};

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

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

int cores_of_node() {
  const auto limits = detect_cpu_limits();
  const int quota = limits.quota ? static_cast<int>(std::ceil(*limits.quota)) : limits.online;
  return std::max(1, std::min(limits.online, quota));
}

int ranks_on_fullest_node(const Topology& topology) {
  std::vector<int> ranks(static_cast<std::size_t>(topology.nodes));
  for (const int node : topology.node_of_rank) ++ranks[static_cast<std::size_t>(node)];
  return *std::max_element(ranks.begin(), ranks.end());
}

std::vector<RecordedStep> record_steps(const Communicator& communicator, Trainer& trainer,
                                       const Network& network, const Batch& batch,
                                       const BenchPlan& plan) {
  for (std::int64_t step = 0; step < plan.warmup; ++step) {
    trainer.step(batch);
    plan.step_done();
  }
  const auto recorder = std::make_shared<StepRecorder>(network);
  communicator.add_listener(recorder);
  std::vector<RecordedStep> steps;
  for (std::int64_t step = 0; step < checked_multiply(plan.steps, plan.trials); ++step) {
    communicator.barrier();  // as averaging gradients makes all ranks begin a step together
    recorder->begin();
    trainer.step(batch);
    steps.push_back(recorder->end(trainer.plan()));
    plan.step_done();
  }
  communicator.remove_listener(recorder);
  return steps;
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

// How long the slowest rank takes, half of the times. Every rank writes its buffer before each
// call, as backward writes gradients: otherwise a slice's owner would find what it has left itself
// in its cache, and reducing would seem several times as fast.
double time_all_reduce(const Communicator& communicator, std::span<float> values) {
  constexpr double enough_seconds = .1;
  constexpr std::size_t warmup = 2, fewest_calls = 5, most_calls = 1000;
  std::vector<double> seconds;
  double spent = 0;
  for (std::size_t call = 0; call < most_calls; ++call) {
    std::fill(values.begin(), values.end(), 1.F);
    communicator.barrier();
    const Stopwatch watch;
    communicator.all_reduce_async(values, ReduceOp::average).wait();
    const double mine = watch.seconds();
    if (call < warmup) continue;
    const double slowest = all_reduce_value(communicator, mine, ReduceOp::max);
    seconds.push_back(slowest);
    spent += slowest;  // the same on all ranks, so that all stop together
    if (spent > enough_seconds && seconds.size() >= fewest_calls) break;
  }
  return median(std::move(seconds));
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
  profile.ranks = communicator.size();
  profile.ranks_per_node = ranks_on_fullest_node(communicator.topology());
  profile.cores_per_node = cores_of_node();
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

CollectiveMeasurement measure_collectives(const Communicator& communicator) {
  constexpr std::int64_t smallest = std::int64_t{4} << 10, largest = std::int64_t{64} << 20;
  const auto memory = communicator.allocate(static_cast<std::size_t>(largest));
  CollectiveMeasurement measurement;
  measurement.layout = {communicator.size(), ranks_on_fullest_node(communicator.topology()),
                        cores_of_node()};
  constexpr double longest_seconds = .5;
  for (std::int64_t bytes = smallest; bytes <= largest; bytes *= 2) {
    const std::span values(reinterpret_cast<float*>(memory.get()),
                           static_cast<std::size_t>(bytes) / sizeof(float));
    const double seconds = time_all_reduce(communicator, values);
    measurement.points.push_back({static_cast<double>(bytes), seconds});
    if (seconds > longest_seconds) break;
  }
  return measurement;
}

}  // namespace kolo
