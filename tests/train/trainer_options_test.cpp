// TrainerOptions and Objective, besides the plain loop.
#include <cmath>
#include <limits>

#include "kolo/base/error.h"
#include "kolo/train/checkpoint_observer.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"
#include "train/training_fixture.h"

namespace kolo::testing {
namespace {

TEST(TrainerOptions, PatienceEndsATrainingThatGetsNoBetter) {
  const auto outcome = train_on(2, {.epochs = 30, .learning_rate = 0, .change = [](auto& options) {
                                      options.early_stopping_patience = 3;
                                    }});
  EXPECT_EQ(outcome.state.best_epoch, 1);  // the first is the best so far
  EXPECT_EQ(outcome.state.epoch, 4);
  EXPECT_EQ(outcome.record.finishes, 1);
}

TEST(TrainerOptions, TheCountAmongTheLargestIsOverAllRanks) {
  for (const int ranks : {1, 3}) {
    const auto all = train_on(ranks, {.samples = 99, .epochs = 1, .top = 4});
    EXPECT_EQ(all.record.epochs[0].validation.in_top, 37);
    EXPECT_EQ(all.record.epochs[0].training.in_top, 99);
    const auto first = train_on(ranks, {.samples = 99, .epochs = 1, .top = 1});
    EXPECT_EQ(first.record.epochs[0].validation.in_top, first.record.epochs[0].validation.correct);
    const auto two = train_on(ranks, {.samples = 99, .epochs = 1, .top = 2});
    EXPECT_GE(two.record.epochs[0].validation.in_top, two.record.epochs[0].validation.correct);
    EXPECT_LE(two.record.epochs[0].validation.in_top, 37);
  }
}

// At a rate of 1 and without momentum a step is as long as the gradient, at most the norm allowed.
TEST(TrainerOptions, ClippingBoundsTheWholeGradient) {
  const TrainingSetup setup{.samples = 8, .epochs = 1, .dropout = 0, .learning_rate = 1};
  const auto before = SmallTraining(Communicator::solo(), setup).weights();
  for (const int ranks : {1, 2}) {
    auto clipped = setup;
    clipped.batch_size = 8 / ranks;
    clipped.change = [](auto& options) { options.clip_norm = .125; };
    const auto step = train_on(ranks, clipped).weights - before;
    EXPECT_NEAR(step.norm().item<double>(), .125, 1e-5);
  }
  auto loose = setup;
  loose.change = [](auto& options) { options.clip_norm = 1e6; };
  EXPECT_TRUE(train_on(1, loose).weights.allclose(train_on(1, setup).weights, 0, 1e-7));
}

// Relative distance of all weights.
double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

// Rounding may choose another pixel in a max pooling, after which weights differ by more than it;
// weights that counted parts wrongly would by far more. One step of 40 samples per rank, and a last
// one of 20, in 3 passes whose lengths differ.
TEST(TrainerOptions, AccumulatedPassesAreOneLargeBatch) {
  for (const int ranks : {1, 2}) {
    const TrainingSetup whole{
        .samples = 100 * ranks, .batch_size = 40, .epochs = 2, .dropout = 0, .top = 2};
    for (const std::int64_t passes : {2, 3, 40, 64}) {
      for (const bool clips : {false, true}) {
        auto setup = whole;
        setup.change = [=](auto& options) { options.clip_norm = clips ? .5 : 0; };
        const auto expected = train_on(ranks, setup);
        setup.change = [=](auto& options) {
          options.clip_norm = clips ? .5 : 0;
          options.accumulation = passes;
        };
        const auto found = train_on(ranks, setup);
        EXPECT_EQ(found.state.step, 6);
        EXPECT_LT(distance(found.weights, expected.weights), 5e-4) << passes;
        for (std::size_t step = 0; step < expected.record.losses.size(); ++step)
          EXPECT_NEAR(found.record.losses[step], expected.record.losses[step], 1e-4);
        for (std::size_t epoch = 0; epoch < 2; ++epoch) {
          const auto &is = found.record.epochs[epoch], &should = expected.record.epochs[epoch];
          EXPECT_EQ(is.training.samples, should.training.samples);
          EXPECT_NEAR(is.training.correct, should.training.correct, 1);
          EXPECT_NEAR(is.training.in_top, should.training.in_top, 1);
        }
      }
    }
  }
}

TEST(TrainerOptions, AccumulationScalesTheLossAsAWhole) {
  const TrainingSetup whole{.samples = 96, .batch_size = 32, .epochs = 1, .dropout = 0};
  const auto with = [&](std::int64_t passes) {
    auto setup = whole;
    setup.change = [=](auto& options) {
      options.accumulation = passes;
      options.loss_scale.emplace();
    };
    return train_on(2, setup).weights;
  };
  EXPECT_LT(distance(with(4), with(1)), 1e-4);
}

TrainingSetup sharded(TrainingSetup setup) {
  const auto change = setup.change;
  setup.change = [change](auto& options) {
    change(options);
    options.sharded = true;
  };
  return setup;
}

// Two ranks add up in one order, more to the same but for rounding; so does clipping.
void expect_same(int ranks, double norm, const torch::Tensor& a, const torch::Tensor& b) {
  if (ranks <= 2 && norm == 0)
    EXPECT_TRUE(a.equal(b)) << distance(a, b);
  else
    EXPECT_LT(distance(a, b), 1e-4);
}

TEST(TrainerOptions, AShardedOptimizerTrainsAsAWholeOne) {
  for (const int ranks : {1, 2, 3}) {
    for (const double norm : {0., .5}) {
      for (const bool scales : {false, true}) {
        TrainingSetup setup{.dropout = 0};
        setup.change = [=](auto& options) {
          options.clip_norm = norm;
          if (scales) options.loss_scale.emplace();
          options.non_finite = NonFiniteStep::skip;
        };
        expect_same(ranks, norm, train_on(ranks, sharded(setup)).weights,
                    train_on(ranks, setup).weights);
      }
    }
  }
}

// The checkpoint that rank 0 has after so many steps.
Checkpoint stopped_checkpoint(int ranks, const TrainingSetup& setup, int after) {
  Checkpoint result;
  run_as_threads(ranks, [&](const Communicator& communicator) {
    int steps = 0;
    SmallTraining training(communicator, setup, [&] { return ++steps == after; });
    EXPECT_EQ(training.trainer().run(), TrainOutcome::stopped);
    auto mine = training.trainer().checkpoint();
    if (communicator.rank() == 0) result = std::move(mine);
    communicator.barrier();
  });
  return result;
}

torch::Tensor weights_going_on(int ranks, const TrainingSetup& setup, const Checkpoint& from) {
  torch::Tensor weights;
  run_as_threads(ranks, [&](const Communicator& communicator) {
    SmallTraining training(communicator, setup);
    const bool is_root = communicator.rank() == 0;
    training.trainer().restore(is_root ? std::optional(from) : std::nullopt);
    EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);
    if (is_root) weights = training.weights();
  });
  return weights;
}

TEST(TrainerOptions, CheckpointsOfShardedOptimizersAreThoseOfWholeOnes) {
  const TrainingSetup setup{.epochs = 3, .dropout = 0};
  const auto of_whole = stopped_checkpoint(2, setup, 9);
  const auto of_parts = stopped_checkpoint(2, sharded(setup), 9);
  ASSERT_EQ(of_parts.optimizer.size(), of_whole.optimizer.size());
  for (std::size_t i = 0; i < of_whole.optimizer.size(); ++i) {
    EXPECT_EQ(of_parts.optimizer[i].name, of_whole.optimizer[i].name);
    EXPECT_TRUE(of_parts.optimizer[i].tensor.equal(of_whole.optimizer[i].tensor));
  }
  for (std::size_t i = 0; i < of_whole.model.size(); ++i)
    EXPECT_TRUE(of_parts.model[i].tensor.equal(of_whole.model[i].tensor));
  for (const int ranks : {1, 2, 3}) {
    const auto expected = weights_going_on(ranks, setup, of_whole);
    expect_same(ranks, 0, weights_going_on(ranks, setup, of_parts), expected);
    expect_same(ranks, 0, weights_going_on(ranks, sharded(setup), of_parts), expected);
    expect_same(ranks, 0, weights_going_on(ranks, sharded(setup), of_whole), expected);
  }
}

// Multiplies all parameters after a step behind the trainer's back.
AtSteps multiplying(Network& network, std::int64_t step, double factor) {
  return AtSteps([&network, step, factor](const StepReport& report) {
    const torch::NoGradGuard no_gradient;
    if (report.state.step != step) return;
    for (auto& parameter : network.parameters()) parameter.mul_(factor);
  });
}

TEST(TrainerOptions, ReplicasAreCompared) {
  const TrainingSetup setup{.epochs = 1,
                            .change = [](auto& options) { options.check_replicas_every = 3; }};
  EXPECT_EQ(train_on(2, setup).record.losses.size(), 7U);
  run_as_threads(2, [&](const Communicator& communicator) {
    SmallTraining training(communicator, setup);
    auto tamperer = multiplying(training.network(), 4, 2);
    if (communicator.rank() == 1) training.trainer().add_observer(tamperer);
    EXPECT_TRUE(says(message_of<Error>([&] { (void)training.trainer().run(); }),
                     {"step 6", "conv1.weight"}));
  });
}

// Numbers of a step that are not finite.
enum class Bad { loss_and_gradients, loss };

// A training whose loss is not a number in the third step, on one rank.
TrainingSetup spoilt(int bad_rank, NonFiniteStep policy, std::int64_t epochs = 1,
                     Bad bad = Bad::loss_and_gradients) {
  const auto loss = [=](int rank, const LossFunction& plain) -> LossFunction {
    return [=, calls = std::make_shared<int>(0)](const torch::Tensor& outputs,
                                                 const torch::Tensor& targets) {
      const auto value = plain(outputs, targets);
      if (rank != bad_rank || ++*calls != 3) return value;
      const double nan = std::numeric_limits<double>::quiet_NaN();
      return bad == Bad::loss ? value + value.detach() * nan : value * nan;
    };
  };
  const auto change = [=](TrainerOptions& options) {
    options.non_finite = policy;
    options.check_replicas_every = policy == NonFiniteStep::skip ? 1 : 0;
  };
  return {.epochs = epochs, .dropout = 0, .change = change, .loss = loss};
}

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(NonFinite, StopsAllRanksWithTheStepNamed) {
  run_as_threads(2, [](const Communicator& communicator) {
    SmallTraining job(communicator, spoilt(1, NonFiniteStep::stop));
    EXPECT_TRUE(says(message_of<Error>([&] { (void)job.trainer().run(); }),
                     {"the loss of step 3 is nan", "non_finite=skip"}));
  });
}

// The gradient of an absolute error is a sign, which is finite where the error is not.
TEST(NonFinite, SkipLeavesTheStepOutOnAllRanks) {
  for (const Bad bad : {Bad::loss, Bad::loss_and_gradients}) {
    run_as_threads(2, [&](const Communicator& communicator) {
      SmallTraining job(communicator, spoilt(1, NonFiniteStep::skip, 2, bad));
      Recorder recorder;
      job.trainer().add_observer(recorder);
      EXPECT_EQ(job.trainer().run(), TrainOutcome::finished);
      EXPECT_TRUE(is_finite(job.weights()));
      EXPECT_EQ(job.trainer().state().skipped_steps, 1);
      EXPECT_EQ(recorder.skipped_in_epoch, (std::vector<std::int64_t>{1, 0}));
      EXPECT_TRUE(std::isfinite(recorder.epochs[0].training.mean_loss()));
      EXPECT_EQ(recorder.epochs[0].training.samples, 84) << "100 samples without a step of 16";
      EXPECT_EQ(recorder.epochs[1].training.samples, 100);
    });
  }
}

// Stripes, but for one sample that is not a number.
class SpoiltDataset final : public StripesDataset {
 public:
  using StripesDataset::StripesDataset;
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override {
    StripesDataset::read(index, epoch, place);
    if (index == 20) place.input[7] = std::numeric_limits<float>::quiet_NaN();
  }
};

TEST(NonFinite, ASkippedStepLeavesNothingInRunningStatistics) {
  const auto solo = Communicator::solo();
  Loader training(std::make_shared<SpoiltDataset>(40), {40, 0, 1, {false, 4, Padding::repeat}},
                  {.batch_size = 8});
  Loader validation(std::make_shared<testing::StripesDataset>(8), {8, 0, 1, {false, 4}},
                    {.batch_size = 8});
  const auto network = make_network("resnet_small", {.input_shape = {1, 16, 16}, .classes = 4});
  TrainerOptions options;
  options.non_finite = NonFiniteStep::skip;
  Trainer trainer(solo, network, {.loss = make_loss("cross_entropy")}, make_sgd({}),
                  LearningRate({.base_rate = .01}), training, validation, options);
  ASSERT_FALSE(network->buffers().empty());
  EXPECT_EQ(trainer.run(), TrainOutcome::finished);
  EXPECT_EQ(trainer.state().skipped_steps, 1);
  for (const auto& buffer : network->buffers()) EXPECT_TRUE(is_finite(buffer));
  EXPECT_NO_THROW((void)trainer.checkpoint());
}

// A training of which one validation sample is not a number.
TEST(NonFinite, AValidationSampleThatIsNotFiniteIsNamedBeforeTheFirstStep) {
  using enum NonFiniteStep;
  for (const auto policy : {stop, skip, ignore}) {
    run_as_threads(2, [&](const Communicator& communicator) {
      const int rank = communicator.rank();
      Loader training(std::make_shared<StripesDataset>(16), {16, rank, 2, {false, 4}},
                      {.batch_size = 4});
      Loader validation(std::make_shared<SpoiltDataset>(24), {24, rank, 2, {false, 4}},
                        {.batch_size = 4});
      const auto network = make_network("mlp", {.input_shape = {1, 16, 16}, .classes = 4});
      TrainerOptions options;
      options.non_finite = policy;
      Trainer trainer(communicator, network, {.loss = make_loss("cross_entropy")}, make_sgd({}),
                      LearningRate({.base_rate = .01}), training, validation, options);
      if (policy == ignore) {
        EXPECT_EQ(trainer.run(), TrainOutcome::finished);
        return;
      }
      EXPECT_TRUE(says(message_of<Error>([&] { (void)trainer.run(); }),
                       {"the validation loss is nan before training, because the input of sample "
                        "20 of the validation data is not finite",
                        "kolo data inspect", "non_finite=ignore"}));
      EXPECT_EQ(trainer.state().step, 0);
    });
  }
}

TEST(NonFinite, SkippedStepsAreStillKnownAfterAResume) {
  const auto setup = spoilt(0, NonFiniteStep::skip);
  SmallTraining job(Communicator::solo(), setup);
  EXPECT_EQ(job.trainer().run(), TrainOutcome::finished);
  SmallTraining resumed(Communicator::solo(), setup);
  resumed.trainer().restore(job.trainer().checkpoint());
  EXPECT_EQ(resumed.trainer().state().skipped_steps, 1);
}

TEST(NonFinite, IgnoreGoesOnUntilTheEpochHasSpoiltTheNetwork) {
  SmallTraining passing(Communicator::solo(), spoilt(0, NonFiniteStep::ignore, 1, Bad::loss));
  EXPECT_EQ(passing.trainer().run(), TrainOutcome::finished);
  EXPECT_TRUE(is_finite(passing.weights()));
  SmallTraining failing(Communicator::solo(), spoilt(0, NonFiniteStep::ignore));
  EXPECT_TRUE(says(message_of<Error>([&] { (void)failing.trainer().run(); }),
                   {"parameters are not finite after step 13, the last of epoch 1"}));
}

TEST(NonFinite, ANetworkSpoiltByTheLastStepOfAnEpochEndsAllRanksAndIsNotSaved) {
  const TemporaryFolder folder;
  for (const std::int64_t last : {7, 14}) {
    run_as_threads(2, [&](const Communicator& communicator) {
      SmallTraining training(communicator, {});  // two epochs of 7 steps
      auto spoiler = multiplying(training.network(), last, infinity);
      CheckpointStore store({folder / std::to_string(last)});
      CheckpointObserver checkpoints(training.trainer(), &store, {.asynchronous = false});
      training.trainer().add_observer(spoiler);
      if (communicator.rank() == 0) training.trainer().add_observer(checkpoints);
      EXPECT_TRUE(says(message_of<Error>([&] { (void)training.trainer().run(); }),
                       {"not finite after step " + std::to_string(last), "--resume best"}));
      if (communicator.rank() != 0) return;
      const auto newest = store.load_newest([](const auto&) {});
      EXPECT_EQ(newest ? newest->step : 0, last - 7);
    });
  }
}

// Weights so large that they are finite, but nothing that is computed with them is.
TEST(NonFinite, WeightsThatAreTooLargeToValidateAreNeitherSavedNorTheBest) {
  using enum NonFiniteStep;
  for (const auto policy : {stop, skip, ignore}) {
    run_as_threads(2, [&](const Communicator& communicator) {
      SmallTraining training(communicator,
                             {.change = [&](auto& options) { options.non_finite = policy; }});
      auto spoiler =
          multiplying(training.network(), 14, 1e30);  // the last step of the second epoch
      Recorder recorder;
      training.trainer().add_observer(spoiler);
      training.trainer().add_observer(recorder);
      if (policy == ignore) {
        EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);
        EXPECT_EQ(training.trainer().state().best_epoch, 1);
        return;
      }
      const auto message = message_of<Error>([&] { (void)training.trainer().run(); });
      EXPECT_TRUE(says(message, {"the validation loss is nan (its samples and the weights are "
                                 "finite) after step 14, the last of epoch 2. The network is not "
                                 "saved"}));
      EXPECT_EQ(message.find("non_finite=skip"), std::string::npos) << "no step was bad";
      EXPECT_EQ(recorder.epochs.size(), 1U) << "no observer was told";
    });
  }
}

TEST(NonFinite, ACheckpointThatNothingCouldGoOnFromIsNotMade) {
  SmallTraining training(Communicator::solo(), {.epochs = 1});
  (void)training.trainer().run();
  const auto good = training.trainer().checkpoint();
  const torch::NoGradGuard no_gradient;
  good.optimizer.front().tensor.mul_(infinity);  // the trainer's own
  EXPECT_TRUE(says(message_of<Error>([&] { (void)training.trainer().checkpoint(); }),
                   {"the optimizer's", "It is not saved"}));
  training.network().parameters().back().view(-1)[0] = std::nanf("");
  EXPECT_TRUE(says(message_of<Error>([&] { (void)training.trainer().checkpoint(); }),
                   {"the network's", "is not finite after step 13"}));
}

}  // namespace
}  // namespace kolo::testing
