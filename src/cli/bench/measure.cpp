#include "cli/bench/measure.h"

#include <functional>

#include "kolo/base/clock.h"

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

}  // namespace kolo
