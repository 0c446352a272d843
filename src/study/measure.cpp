#include "kolo/study/bench.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/base/checked.h"
#include "kolo/base/clock.h"
#include "kolo/base/machine.h"
#include "kolo/base/statistics.h"
#include "kolo/comm/collective_call.h"
#include "kolo/comm/transfer.h"
#include "kolo/parallel/bucket_plan.h"
#include "kolo/parallel/device_clock.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/initialize.h"
#include "kolo/parallel/tensor_collectives.h"

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

// `step` does one and returns its samples; `begin_trial` and `finish_trial`, which adds what else
// is known of a trial, wait for the device: a trial is its steps, as a whole.
std::vector<BenchTrial> measure(const Communicator& communicator, const BenchPlan& plan,
                                const std::function<std::int64_t()>& step,
                                const std::function<void()>& begin_trial,
                                const std::function<void(BenchTrial&)>& finish_trial) {
  for (std::int64_t i = 0; i < plan.warmup; ++i) {
    (void)step();
    plan.step_done();
  }
  begin_trial();
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
    finish_trial(trial);
    trial.seconds = watch.seconds();
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
  auto trials = measure(
      communicator, plan, [&] { return batches.next().input.size(0); }, [] {}, [](BenchTrial&) {});
  for (auto& trial : trials) trial.data_seconds = trial.seconds;
  return trials;
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
      [&] {
        trainer.settle();
        trainer.reset_communication();
      },
      [&](BenchTrial& trial) {
        trainer.settle();
        trial.communication_seconds = trainer.communication().exposed_seconds;
      });
}

std::vector<BenchTrial> measure_training(const Communicator& communicator, Trainer& trainer,
                                         Loader& loader, const BenchPlan& plan) {
  BatchStream batches(loader);
  // A device waits for data as long as it has nothing else to do.
  const DeviceClock clock(trainer.device(), plan.device_runtime);
  DeviceTimeSum waiting;
  return measure(
      communicator, plan,
      [&] {
        auto begin = clock.now();
        const Batch batch = batches.next();
        waiting.add(std::move(begin), clock.now());
        trainer.step(batch);
        return batch.input.size(0);
      },
      [&] {
        trainer.settle();
        trainer.reset_communication();
        waiting = {};
      },
      [&](BenchTrial& trial) {
        trainer.settle();
        trial.communication_seconds = trainer.communication().exposed_seconds;
        trial.data_seconds = waiting.seconds();
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

// Memory as gradients have it: on the host such that ranks of a node reduce in place.
class AveragedMemory {
 public:
  AveragedMemory(const Communicator& communicator, std::int64_t bytes, const torch::Device& device)
      : communicator_(communicator), clock_(device) {
    if (device.is_cpu())
      host_ = communicator.allocate(narrow<std::size_t>(bytes));
    else
      there_ = torch::empty({bytes / float_bytes}, torch::TensorOptions(device));
  }

  // How long an average of so many bytes takes this rank. It writes them before: otherwise a
  // slice's owner would find what it has left itself in its cache, and reducing would seem several
  // times as fast.
  [[nodiscard]] double time_average(std::int64_t bytes) const {
    const auto count = bytes / float_bytes;
    auto* const values = reinterpret_cast<float*>(host_.get());
    const auto part = host_ ? torch::Tensor() : there_.narrow(0, 0, count);
    const auto buffer =
        host_ ? Buffer(std::span(values, narrow<std::size_t>(count))) : buffer_of(part);
    if (host_)
      std::fill_n(values, count, 1.F);
    else
      torch::Tensor(part).fill_(1);
    clock_.now().wait();
    communicator_.barrier();
    const auto begin = clock_.now();
    communicator_.all_reduce_async(buffer, ReduceOp::average).wait();
    return clock_.now().seconds_since(begin);
  }

 private:
  static constexpr std::int64_t float_bytes = sizeof(float);
  const Communicator& communicator_;
  DeviceClock clock_;
  std::shared_ptr<std::byte> host_;  // none: on a device
  torch::Tensor there_;
};

// The rank that this one sends messages to and gets them from: pairs of ranks which follow each
// other, on the same node unless nodes have just one. None for the last one of an odd number.
std::optional<int> partner_of(const Topology& topology, int rank, int ranks_per_node) {
  std::vector<int> together;  // those that are paired among themselves
  for (int other = 0; other < topology.size; ++other) {
    const auto node_of = [&](int of) {
      return topology.node_of_rank[static_cast<std::size_t>(of)];
    };
    if (ranks_per_node == 1 || node_of(other) == node_of(rank)) together.push_back(other);
  }
  const auto place = static_cast<std::size_t>(std::ranges::find(together, rank) - together.begin());
  const auto partner = place ^ 1U;
  return partner < together.size() ? std::optional(together[partner]) : std::nullopt;
}

// Messages between neighbours as halos are sent, from and to memory of their own.
class ExchangedMemory {
 public:
  ExchangedMemory(const Communicator& communicator, std::optional<int> partner, std::int64_t bytes,
                  const torch::Device& device)
      : communicator_(communicator), partner_(partner), clock_(device) {
    const auto options = torch::TensorOptions(device).dtype(torch::kByte);
    sent_ = torch::zeros({bytes}, options);
    received_ = torch::zeros({bytes}, options);
  }

  // How long both directions at once take this rank; 0 without a partner.
  [[nodiscard]] double time_exchange(std::int64_t bytes) const {
    auto sent = sent_.narrow(0, 0, bytes);
    sent.fill_(1);
    clock_.now().wait();
    communicator_.barrier();
    if (!partner_) return 0;
    const auto begin = clock_.now();
    const std::vector transfers{
        Transfer::receive(buffer_of(received_.narrow(0, 0, bytes)), *partner_),
        Transfer::send(buffer_of(sent), *partner_)};
    communicator_.exchange_async(transfers, {.name = "message"}).wait();
    return clock_.now().seconds_since(begin);
  }

 private:
  const Communicator& communicator_;
  std::optional<int> partner_;
  DeviceClock clock_;
  torch::Tensor sent_, received_;
};

// How long the slowest rank takes, half of the times; `time_once`: this rank's, of one call.
double median_of_slowest(const Communicator& communicator,
                         const std::function<double()>& time_once) {
  constexpr double enough_seconds = .1;
  constexpr std::size_t warmup = 2, fewest_calls = 5, most_calls = 1000;
  std::vector<double> seconds;
  double spent = 0;
  for (std::size_t call = 0; call < most_calls; ++call) {
    const double mine = time_once();
    if (call < warmup) continue;
    const double slowest = all_reduce_value(communicator, mine, ReduceOp::max);
    seconds.push_back(slowest);
    spent += slowest;  // the same on all ranks, so that all stop together
    if (spent > enough_seconds && seconds.size() >= fewest_calls) break;
  }
  return median(std::move(seconds));
}

// Each size twice the one before, until one takes too long. `time_once`: this rank's time of one
// call with so many bytes.
std::vector<CollectiveMeasurement::Point> measure_sizes(
    const Communicator& communicator, std::int64_t smallest, std::int64_t largest,
    const std::function<double(std::int64_t)>& time_once) {
  constexpr double longest_seconds = .5;
  std::vector<CollectiveMeasurement::Point> points;
  for (std::int64_t bytes = smallest; bytes <= largest; bytes *= 2) {
    const double seconds = median_of_slowest(communicator, [&] { return time_once(bytes); });
    points.push_back({static_cast<double>(bytes), seconds});
    if (seconds > longest_seconds) break;
  }
  return points;
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

CollectiveMeasurement measure_collectives(const Communicator& communicator,
                                          const torch::Device& device) {
  constexpr std::int64_t smallest = std::int64_t{4} << 10, largest = std::int64_t{64} << 20;
  constexpr std::int64_t largest_message = std::int64_t{16} << 20;
  CollectiveMeasurement measurement;
  measurement.layout = {communicator.size(), ranks_on_fullest_node(communicator.topology()),
                        cores_of_node()};
  const AveragedMemory averaged(communicator, largest, device);
  measurement.points = measure_sizes(communicator, smallest, largest, [&](std::int64_t bytes) {
    return averaged.time_average(bytes);
  });
  const ExchangedMemory exchanged(
      communicator,
      partner_of(communicator.topology(), communicator.rank(), measurement.layout.ranks_per_node),
      largest_message, device);
  measurement.messages =
      measure_sizes(communicator, smallest, largest_message,
                    [&](std::int64_t bytes) { return exchanged.time_exchange(bytes); });
  measurement.device = device_name(device);
  if (!device.is_cpu()) measurement.channel = communicator.capabilities().device_transport;
  return measurement;
}

}  // namespace kolo
