#include "kolo/train/trainer.h"

#include <chrono>
#include <mutex>
#include <thread>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"
#include "train/training_fixture.h"

namespace kolo::testing {
namespace {

TEST(Trainer, LearnsAndReports) {
  const auto record = train_on(1, {.samples = 200, .epochs = 4}).record;
  EXPECT_EQ(record.steps_in_epoch, 25);
  EXPECT_EQ(record.losses.size(), 100U);
  ASSERT_EQ(record.epochs.size(), 4U);
  EXPECT_EQ(record.untrained->samples, 37);
  EXPECT_LT(record.epochs.back().validation.mean_loss(), .6 * record.untrained->mean_loss());
  EXPECT_GT(record.epochs.back().validation.accuracy(), .8);
  EXPECT_TRUE(record.is_best.front());
  EXPECT_EQ(record.finishes, 1);
}

// The same global batches, in the same order, whatever the number of ranks that share them.
TEST(Trainer, TheLossCurveDoesNotDependOnTheNumberOfRanks) {
  const TrainingSetup one{.samples = 96, .batch_size = 12, .epochs = 2, .dropout = 0};
  const auto reference = train_on(1, one);
  for (const int ranks : {2, 3}) {
    auto setup = one;
    setup.batch_size = one.batch_size / ranks;
    const auto outcome = train_on(ranks, setup);
    ASSERT_EQ(outcome.record.losses.size(), reference.record.losses.size());
    for (std::size_t step = 0; step < reference.record.losses.size(); ++step) {
      EXPECT_NEAR(outcome.record.losses[step], reference.record.losses[step], 1e-5)
          << ranks << " ranks, step " << step;
    }
    EXPECT_TRUE(outcome.weights.allclose(reference.weights, 1e-4, 1e-5));
    EXPECT_EQ(outcome.record.epochs[1].validation.correct,
              reference.record.epochs[1].validation.correct);
    EXPECT_EQ(outcome.record.epochs[1].validation.samples, 37) << "each once";
  }
}

// An epoch has 13 steps, which are those of a longer run.
TEST(Trainer, EndsAfterSoManySteps) {
  const auto longer = train_on(1, {}).record.losses;
  const struct {
    std::int64_t steps, epochs, in_last;
  } cases[] = {{1, 1, 1}, {13, 1, 13}, {15, 2, 2}, {26, 2, 13}, {99, 2, 13}};
  for (const auto& [steps, epochs, in_last] : cases) {
    const auto outcome = train_on(
        1, {.change = [steps = steps](TrainerOptions& options) { options.max_steps = steps; }});
    EXPECT_EQ(outcome.state.step, std::min<std::int64_t>(steps, 26));
    EXPECT_EQ(outcome.record.losses,
              std::vector(longer.begin(), longer.begin() + outcome.state.step));
    EXPECT_EQ(outcome.state.epoch, epochs) << "the last one is validated and counted, too";
    EXPECT_EQ(outcome.record.epochs.size(), static_cast<std::size_t>(epochs));
    EXPECT_EQ(outcome.record.steps_in_epoch, in_last);
    EXPECT_EQ(outcome.record.finishes, 1);
    EXPECT_EQ(outcome.record.stops, 0);
  }
}

TEST(Trainer, ObserversFollowEveryValidation) {
  struct Watcher final : Observer {
    void on_validation(std::int64_t done, std::int64_t batches) override {
      seen.push_back(done);
      EXPECT_EQ(batches, 4);  // of 10 out of 37 samples
    }
    std::vector<std::int64_t> seen;
  } watcher;
  SmallTraining training(Communicator::solo(), {.epochs = 1});
  training.trainer().add_observer(watcher);
  (void)training.trainer().run();
  EXPECT_EQ(watcher.seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}))
      << "before and after the epoch";
}

TEST(Trainer, GoesOnFromACheckpointToTheSameBits) {
  const auto solo = Communicator::solo();
  SmallTraining whole(solo, {});
  Recorder whole_record;
  whole.trainer().add_observer(whole_record);
  ASSERT_EQ(whole.trainer().run(), TrainOutcome::finished);
  for (const int stop_after : {1, 5, 12, 13, 14}) {  // an epoch has 13 steps
    int steps = 0;
    SmallTraining first(solo, {}, [&] { return ++steps == stop_after; });
    ASSERT_EQ(first.trainer().run(), TrainOutcome::stopped);
    // The last step of an epoch goes on to its end, and stops there.
    EXPECT_EQ(first.trainer().state().epoch, stop_after / 13);
    const Checkpoint checkpoint = first.trainer().checkpoint();
    SmallTraining second(solo, {});
    Recorder record;
    second.trainer().add_observer(record);
    second.trainer().restore(checkpoint);
    ASSERT_EQ(second.trainer().run(), TrainOutcome::finished);
    EXPECT_TRUE(second.weights().equal(whole.weights())) << "stopped after " << stop_after;
    EXPECT_FALSE(record.untrained.has_value());
    EXPECT_EQ(record.done_at_begin.front(), stop_after % 13);
    EXPECT_EQ(record.epochs.back().training.loss, whole_record.epochs.back().training.loss);
    EXPECT_EQ(record.epochs.back().training.samples, 100);
  }
}

// Takes the times at which epochs end.
class Clock final : public Observer {
 public:
  void on_start(const TrainState& state, const std::optional<MetricSums>&) override {
    began = state.seconds;
  }
  void on_epoch_end(const EpochReport& report) override {
    ends.push_back(report.state.seconds);
    epochs.push_back(report.seconds);
  }

  double began = -1;
  std::vector<double> ends, epochs;
};

TEST(Trainer, ItsTimeGoesOnFromTheCheckpoints) {
  const auto solo = Communicator::solo();
  int steps = 0;
  SmallTraining first(solo, {}, [&] { return ++steps == 14; });
  Clock before, after;
  first.trainer().add_observer(before);
  ASSERT_EQ(first.trainer().run(), TrainOutcome::stopped);
  auto checkpoint = first.trainer().checkpoint();
  EXPECT_EQ(before.began, 0);
  EXPECT_GT(checkpoint.state.at("seconds"), before.ends.at(0));
  checkpoint.state["seconds"] = 1e6;
  SmallTraining second(solo, {});
  second.trainer().add_observer(after);
  second.trainer().restore(checkpoint);
  ASSERT_EQ(second.trainer().run(), TrainOutcome::finished);
  EXPECT_EQ(after.began, 1e6);
  EXPECT_GT(after.ends.at(0), 1e6);
}

// Time between steps counts in both, as waiting for a batch does.
TEST(Trainer, TheTimesOfStepsAreTheirEpochs) {
  SmallTraining training(Communicator::solo(), {.epochs = 2});  // of 13 steps
  std::vector<double> epochs(2, 0);
  AtSteps slow([&](const StepReport& report) {
    epochs[report.state.step > 13 ? 1 : 0] += report.seconds;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  Clock clock;
  training.trainer().add_observer(slow);
  training.trainer().add_observer(clock);
  ASSERT_EQ(training.trainer().run(), TrainOutcome::finished);
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    EXPECT_GE(epochs[epoch], 12 * .005);
    EXPECT_LE(epochs[epoch], clock.epochs.at(epoch));
  }
}

TEST(Trainer, ARequestInTheVeryLastStepComesTooLate) {
  const auto solo = Communicator::solo();
  SmallTraining counted(solo, {});
  ASSERT_EQ(counted.trainer().run(), TrainOutcome::finished);
  const auto all = counted.trainer().state().step;
  std::int64_t steps = 0;
  SmallTraining training(solo, {}, [&] { return ++steps == all; });
  EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);
}

TEST(Trainer, OneRanksRequestStopsAllAtTheSameStep) {
  std::mutex mutex;
  std::vector<std::int64_t> stopped_at;
  run_as_threads(3, [&](const Communicator& communicator) {
    int steps = 0;
    SmallTraining training(communicator, {},
                           [&] { return communicator.rank() == 2 && ++steps == 3; });
    EXPECT_EQ(training.trainer().run(), TrainOutcome::stopped);
    const std::lock_guard lock(mutex);
    stopped_at.push_back(training.trainer().state().step);
  });
  EXPECT_EQ(stopped_at, (std::vector<std::int64_t>{3, 3, 3}));
}

// 37 validation samples in batches of 10: 2 batches on each of three ranks, of different lengths.
// The validation before training has two of them, so the third request is in the first epoch's.
TEST(Trainer, OneRanksRequestEndsAValidationOnAll) {
  run_as_threads(3, [&](const Communicator& communicator) {
    int batches = 0;
    TrainingSetup setup;
    setup.change = [&](TrainerOptions& options) {
      options.stop_validation_requested = [&] {
        return ++batches == 3 && communicator.rank() == 2;
      };
    };
    SmallTraining training(communicator, setup);
    Recorder record;
    training.trainer().add_observer(record);
    EXPECT_EQ(training.trainer().run(), TrainOutcome::stopped);
    EXPECT_EQ(training.trainer().state().step, 5) << "the epoch's steps are done";
    EXPECT_EQ(training.trainer().state().epoch, 0);
    EXPECT_EQ(record.stops, 1);
    EXPECT_TRUE(record.untrained.has_value());
    EXPECT_TRUE(record.epochs.empty());
  });
}

// Whoever goes on from a stop in the validation before training has it still to come; from its end,
// not.
TEST(Trainer, TheValidationBeforeTrainingIsMadeOnce) {
  const auto untrained_of = [](const Checkpoint& checkpoint) {
    SmallTraining resumed(Communicator::solo(), {.epochs = 1});
    Recorder record;
    resumed.trainer().add_observer(record);
    resumed.trainer().restore(checkpoint);
    EXPECT_EQ(resumed.trainer().run(), TrainOutcome::finished);
    return record.untrained;
  };
  auto checkpoint = SmallTraining(Communicator::solo(), {}).trainer().checkpoint();
  EXPECT_EQ(untrained_of(checkpoint).value().samples, 37);
  checkpoint.state["is_validated"] = true;
  EXPECT_FALSE(untrained_of(checkpoint).has_value());
}

// Trains so many steps, after a checkpoint if one is given, and leaves one.
struct WarmedUp {
  std::vector<double> rates;
  Checkpoint checkpoint;
};
WarmedUp train_in_warmup(std::int64_t batch, std::int64_t warmup_steps, std::size_t steps,
                         const std::optional<Checkpoint>& from = std::nullopt) {
  std::vector<double> rates;
  AtSteps observer([&](const StepReport& report) { rates.push_back(report.learning_rate); });
  SmallTraining training(
      Communicator::solo(),
      {.samples = 64, .batch_size = batch, .learning_rate = .1, .warmup_steps = warmup_steps},
      [&] { return rates.size() >= steps; });
  training.trainer().add_observer(observer);
  if (from) training.trainer().restore(from);
  EXPECT_EQ(training.trainer().run(), TrainOutcome::stopped);
  return {rates, training.trainer().checkpoint()};
}

TEST(Trainer, AWarmupGoesOnByItsSamplesWithOtherBatches) {
  const auto first = train_in_warmup(4, 40, 15);
  ASSERT_EQ(first.rates.size(), 16U) << "a stop takes one step more";
  const double done = 16;
  EXPECT_NEAR(first.rates.back(), .1 * done / 40, 1e-12);
  const auto second = train_in_warmup(8, 40, 2, first.checkpoint);
  EXPECT_NEAR(second.rates.front(), .1 * (done / 2 + 1) / 20, 1e-12);
  const auto third = train_in_warmup(4, 40, 2, second.checkpoint);
  const auto more = static_cast<double>(2 * second.rates.size());
  EXPECT_NEAR(third.rates.front(), .1 * (done + more + 1) / 40, 1e-12);
  // A run that asks for another warm-up has it in the steps that it takes now.
  EXPECT_NEAR(train_in_warmup(8, 30, 1, first.checkpoint).rates.front(), .1 * (done / 2 + 1) / 30,
              1e-12);
}

TEST(Trainer, StepsThatAParameterHasLeftOutArePartOfACheckpoint) {
  SmallTraining training(Communicator::solo(), {.epochs = 1});
  auto parameter = training.network().parameters().front();
  parameter.requires_grad_(false);
  ASSERT_EQ(training.trainer().run(), TrainOutcome::finished);
  parameter.requires_grad_(true);
  const auto checkpoint = training.trainer().checkpoint();
  const auto& left_out = checkpoint.state.at("left_out_steps");
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_EQ(left_out.begin().value(), 13);
  SmallTraining resumed(Communicator::solo(), {.epochs = 2});
  resumed.trainer().restore(checkpoint);
  EXPECT_EQ(resumed.trainer().checkpoint().state.at("left_out_steps"), left_out);
  auto damaged = checkpoint;
  damaged.state["left_out_steps"] = {{"conv1.weight", "many"}};
  EXPECT_THROW(resumed.trainer().restore(damaged), Error);
}

TEST(Trainer, RestoresOnEveryRankFromRankZeros) {
  Checkpoint checkpoint;
  torch::Tensor weights;
  {
    SmallTraining training(Communicator::solo(), {.epochs = 1});
    (void)training.trainer().run();
    checkpoint = training.trainer().checkpoint();
    weights = training.weights();
  }
  run_as_threads(2, [&](const Communicator& communicator) {
    SmallTraining training(communicator, {});
    training.trainer().restore(communicator.rank() == 0 ? std::optional(checkpoint) : std::nullopt);
    EXPECT_TRUE(training.weights().equal(weights));
    EXPECT_EQ(training.trainer().state().epoch, 1);
    EXPECT_EQ(training.trainer().checkpoint().optimizer.front().tensor.sum().item<float>(),
              checkpoint.optimizer.front().tensor.sum().item<float>());
  });
}

TEST(Trainer, RefusesACheckpointOfAnotherModelOrOptimizer) {
  SmallTraining training(Communicator::solo(), {});
  const Checkpoint checkpoint = training.trainer().checkpoint();
  const auto wider = make_network("mnist_net", {.input_shape = {1, 16, 16}, .classes = 7});
  EXPECT_TRUE(says(message_of<InputError>(
                       [&] { require_matching_checkpoint(checkpoint, *wider, *make_sgd({})); }),
                   {"its fc2.weight is [4, 50], the configuration's is [7, 50]"}));
  const auto same = make_network("mnist_net", {.input_shape = {1, 16, 16}, .classes = 4});
  EXPECT_TRUE(says(message_of<InputError>(
                       [&] { require_matching_checkpoint(checkpoint, *same, *make_adam({})); }),
                   {"the checkpoint's optimizer is sgd, the configuration's is adam"}));
  EXPECT_NO_THROW(require_matching_checkpoint(checkpoint, *same, *make_sgd({.momentum = .1})));
}

}  // namespace
}  // namespace kolo::testing
