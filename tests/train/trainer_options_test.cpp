// What TrainerOptions and Objective can ask for besides the plain loop.
#include <limits>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/comm/threads.h"
#include "support/errors.h"
#include "train/training_fixture.h"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::Recorder;
using testing::SmallTraining;
using testing::train_on;
using testing::TrainingSetup;

TEST(TrainerOptions, PatienceEndsATrainingThatGetsNoBetter) {
  const auto outcome = train_on(
      2, {.epochs = 30, .learning_rate = 0, .change = [](auto& options) { options.patience = 3; }});
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

// With a rate of 1 and no momentum a step is as long as the gradient, at most the norm allowed.
TEST(TrainerOptions, ClippingBoundsTheWholeGradient) {
  const TrainingSetup setup{.samples = 8, .epochs = 1, .dropout = 0, .learning_rate = 1};
  const auto before = SmallTraining(Communicator::solo(), setup).weights();
  for (const int ranks : {1, 2}) {
    auto clipped = setup;
    clipped.batch_size = 8 / ranks;
    clipped.change = [](auto& options) { options.maximum_norm = .125; };
    const auto step = train_on(ranks, clipped).weights - before;
    EXPECT_NEAR(step.norm().item<double>(), .125, 1e-5);
  }
  auto loose = setup;
  loose.change = [](auto& options) { options.maximum_norm = 1e6; };
  EXPECT_TRUE(train_on(1, loose).weights.allclose(train_on(1, setup).weights, 0, 1e-7));
}

TEST(TrainerOptions, MixupLearnsAndGoesOnToTheSameBits) {
  TrainingSetup setup{
      .samples = 200, .epochs = 4, .change = [](auto& options) { options.mixup_alpha = .4; }};
  const auto whole = train_on(1, setup);
  EXPECT_GT(whole.record.epochs.back().validation.accuracy(), .7);
  EXPECT_FALSE(whole.weights.equal(train_on(1, {.samples = 200, .epochs = 4}).weights));

  const auto solo = Communicator::solo();
  int steps = 0;
  SmallTraining part(solo, setup, [&] { return ++steps == 30; });
  ASSERT_EQ(part.trainer().run(), TrainOutcome::stopped);
  SmallTraining rest(solo, setup);
  rest.trainer().restore(part.trainer().checkpoint());
  ASSERT_EQ(rest.trainer().run(), TrainOutcome::finished);
  EXPECT_TRUE(rest.weights().equal(whole.weights));
}

// Changes a parameter behind the trainer's back.
class Tamperer final : public Observer {
 public:
  Tamperer(Network& network, std::int64_t step) : network_(network), step_(step) {}
  void on_step(const StepReport& report) override {
    const torch::NoGradGuard no_gradient;
    if (report.state.step == step_) network_.parameters()[0].add_(1);
  }

 private:
  Network& network_;
  std::int64_t step_;
};

TEST(TrainerOptions, ReplicasAreCompared) {
  const TrainingSetup setup{.epochs = 1,
                            .change = [](auto& options) { options.check_replicas_every = 3; }};
  EXPECT_EQ(train_on(2, setup).record.losses.size(), 7U);
  run_as_threads(2, [&](const Communicator& communicator) {
    SmallTraining training(communicator, setup);
    Tamperer tamperer(training.network(), 4);
    if (communicator.rank() == 1) training.trainer().add_observer(tamperer);
    EXPECT_THAT(message_of<Error>([&] { (void)training.trainer().run(); }),
                AllOf(HasSubstr("step 6"), HasSubstr("conv1.weight")));
  });
}

// A loss function that is not a number in one step, on one rank.
class BadStep {
 public:
  BadStep(const Communicator& communicator, const TrainingSetup& setup, int bad_rank)
      : is_bad_(communicator.rank() == bad_rank),
        training_(
            StripesOf(setup.samples),
            {setup.samples, communicator.rank(), communicator.size(), {true, 4, Padding::repeat}},
            {.batch_size = setup.batch_size}),
        validation_(StripesOf(8),
                    {8, communicator.rank(), communicator.size(), {false, 4, Padding::none}},
                    {.batch_size = 8}),
        network_(
            make_network("mnist_net", {.input_shape = {1, 16, 16}, .classes = 4, .dropout = 0.})),
        trainer_(communicator, network_, {.loss = loss(), .validation_loss = plain_}, make_sgd({}),
                 LearningRate({.base_rate = .05}), training_, validation_, options(setup)) {}

  [[nodiscard]] Trainer& trainer() { return trainer_; }
  [[nodiscard]] bool is_finite() const {
    for (const auto& parameter : network_->parameters())
      if (!parameter.isfinite().all().item<bool>()) return false;
    return true;
  }

 private:
  static std::shared_ptr<const Dataset> StripesOf(std::int64_t size) {
    return std::make_shared<testing::StripesDataset>(size);
  }
  static TrainerOptions options(const TrainingSetup& setup) {
    TrainerOptions options;
    options.epochs = setup.epochs;
    setup.change(options);
    return options;
  }
  LossFunction loss() {
    return [this](const torch::Tensor& outputs, const torch::Tensor& targets) {
      const auto value = plain_(outputs, targets);
      const bool is_now = is_bad_ && ++calls_ == 3;
      return is_now ? value * std::numeric_limits<double>::quiet_NaN() : value;
    };
  }

  bool is_bad_;
  int calls_ = 0;
  LossFunction plain_ = make_loss(LossKind::cross_entropy);
  Loader training_, validation_;
  std::shared_ptr<Network> network_;
  Trainer trainer_;
};

TEST(NonFinite, StopsAllRanksWithTheStepNamed) {
  run_as_threads(2, [](const Communicator& communicator) {
    BadStep job(communicator, {.epochs = 1}, 1);
    EXPECT_THAT(message_of<Error>([&] { (void)job.trainer().run(); }),
                AllOf(HasSubstr("the loss of step 3 is nan"), HasSubstr("non_finite=skip")));
  });
}

TEST(NonFinite, SkipLeavesTheStepOutOnAllRanks) {
  run_as_threads(2, [](const Communicator& communicator) {
    BadStep job(communicator,
                {.epochs = 1,
                 .change =
                     [](auto& options) {
                       options.non_finite = NonFiniteStep::skip;
                       options.check_replicas_every = 1;
                     }},
                1);
    EXPECT_EQ(job.trainer().run(), TrainOutcome::finished);
    EXPECT_EQ(job.trainer().skipped_steps(), 1);
    EXPECT_TRUE(job.is_finite());
  });
}

TEST(NonFinite, IgnoreGoesOn) {
  BadStep job(
      Communicator::solo(),
      {.epochs = 1, .change = [](auto& options) { options.non_finite = NonFiniteStep::ignore; }},
      0);
  EXPECT_EQ(job.trainer().run(), TrainOutcome::finished);
  EXPECT_FALSE(job.is_finite());
}

}  // namespace
}  // namespace kolo
