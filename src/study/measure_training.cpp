#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "kolo/base/clock.h"
#include "kolo/parallel/device_clock.h"
#include "kolo/study/measure.h"

namespace kolo {

namespace {

// Batches without end, epoch after epoch.
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

// `step` makes a step and returns its samples. `begin_trial` and `finish_trial`, which adds the
// trial's waits, wait for the device, so that a trial is all the work of its steps.
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

std::vector<BenchTrial> measure_training(const Communicator& communicator, Trainer& trainer,
                                         Loader& loader, const BenchPlan& plan, BatchUse use) {
  BatchStream batches(loader);
  std::optional<Batch> first;
  if (use == BatchUse::first_again) first = batches.next();
  // A device waits for data as long as it has nothing else to do.
  const DeviceClock clock(trainer.device(), plan.device_runtime);
  DeviceTimeSum waiting;
  return measure(
      communicator, plan,
      [&] {
        if (first) {
          trainer.step(*first);
          return first->input.size(0);
        }
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
        if (!first) trial.data_seconds = waiting.seconds();
      });
}

}  // namespace kolo
