// Trainings by optimizers whose state, or whose parameters for use, are of a kind of their own.

#include "train/training_fixture.h"

namespace kolo::testing {
namespace {

std::vector<std::shared_ptr<const FlatOptimizer>> unusual_optimizers() {
  return {make_schedule_free_sgd({}), make_schedule_free_adamw({.weight_decay = .01}),
          make_lamb({.weight_decay = .01})};
}

void expect_exact_resume(const Communicator& communicator, const TrainingSetup& setup) {
  SmallTraining training(communicator, setup);
  std::optional<Checkpoint> taken;  // amid an epoch, as a run's observer takes it
  AtSteps taking([&](const StepReport& report) {
    if (report.state.step != 5) return;
    taken = training.trainer().checkpoint();
    for (auto* const tensors : {&taken->model, &taken->optimizer})
      for (auto& item : *tensors) item.tensor = item.tensor.clone();
  });
  training.trainer().add_observer(taking);
  EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);
  SmallTraining resumed(communicator, setup);
  resumed.trainer().restore(communicator.rank() == 0 ? taken : std::nullopt);
  EXPECT_EQ(resumed.trainer().run(), TrainOutcome::finished);
  EXPECT_TRUE(resumed.weights().equal(training.weights())) << setup.optimizer->name();
}

TEST(UnusualOptimizers, GoOnFromACheckpointToTheSameBits) {
  for (const auto& optimizer : unusual_optimizers()) {
    TrainingSetup setup;
    setup.dropout = 0;  // ranks that are threads share the generator
    setup.learning_rate = .01;
    setup.optimizer = optimizer;
    expect_exact_resume(Communicator::solo(), setup);
    run_as_threads(2, [&](const Communicator& ranks) { expect_exact_resume(ranks, setup); });
    setup.change = [](TrainerOptions& options) {
      options.shared_step = {.enabled = true, .smallest_bytes = 0};
    };
    run_as_threads(2, [&](const Communicator& ranks) { expect_exact_resume(ranks, setup); });
    if (optimizer->is_layerwise()) continue;
    setup.change = [](TrainerOptions& options) { options.sharded = true; };
    run_as_threads(2, [&](const Communicator& ranks) { expect_exact_resume(ranks, setup); });
  }
}

TEST(ScheduleFreeTraining, ValidatesAndSavesTheAverage) {
  TrainingSetup setup;
  setup.learning_rate = .2;
  setup.optimizer = make_schedule_free_sgd({});
  SmallTraining training(Communicator::solo(), setup);
  Recorder record;
  training.trainer().add_observer(record);
  ASSERT_EQ(training.trainer().run(), TrainOutcome::finished);
  const auto checkpoint = training.trainer().checkpoint();
  const auto trained = training.weights();

  // An ordinary network of the checkpoint's parameters is what was validated.
  SmallTraining other(Communicator::solo(), {});
  load_network(checkpoint, other.network());
  const auto sums = other.trainer().evaluate(other.validation());
  EXPECT_EQ(sums.loss, record.epochs.back().validation.loss);
  EXPECT_EQ(sums.correct, record.epochs.back().validation.correct);
  EXPECT_FALSE(other.weights().equal(trained));

  // A further validation finds them again, and leaves the trained parameters as they are.
  EXPECT_EQ(training.trainer().evaluate(training.validation()).loss, sums.loss);
  EXPECT_TRUE(training.weights().equal(trained));
}

TEST(ScheduleFreeTraining, BeginsWithTheNetworkAsItIs) {
  TrainingSetup setup;
  setup.optimizer = make_schedule_free_adamw({});
  SmallTraining training(Communicator::solo(), setup), other(Communicator::solo(), {});
  EXPECT_EQ(training.trainer().evaluate(training.validation()).loss,
            other.trainer().evaluate(other.validation()).loss);
}

}  // namespace
}  // namespace kolo::testing
