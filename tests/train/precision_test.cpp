// Training in mixed precision, and with a loss scale.

#include "kolo/base/error.h"
#include "kolo/train/objective.h"
#include "kolo/train/recorders.h"
#include "support/says.h"
#include "train/field_training.h"

namespace kolo::testing {
namespace {

// A loss whose gradient is not finite in some calls, on one rank, though its value is.
LossFunction overflowing(LossFunction loss, std::vector<int> calls) {
  const auto count = std::make_shared<int>(0);
  return [loss = std::move(loss), calls = std::move(calls), count](const torch::Tensor& outputs,
                                                                   const torch::Tensor& targets) {
    const auto value = loss(outputs, targets);
    if (std::find(calls.begin(), calls.end(), ++*count) == calls.end()) return value;
    // The square root's slope at zero is infinite.
    return value + torch::sqrt(outputs.sum() - outputs.sum().detach());
  };
}

TEST(Autocast, GuardsNestAndLeaveThingsAsTheyWere) {
  EXPECT_EQ(autocast_type(), std::nullopt);
  const auto a = torch::ones({4, 4});
  {
    const AutocastGuard outer(Precision::bf16);
    EXPECT_EQ(autocast_type(), torch::kBFloat16);
    EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kBFloat16);
    {
      const AutocastGuard inner(Precision::fp32);
      EXPECT_EQ(autocast_type(), std::nullopt);
      EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kFloat);
    }
    EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kBFloat16);
  }
  EXPECT_EQ(autocast_type(), std::nullopt);
  EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kFloat);
}

TEST(Precisions, ThatDontWorkHereAreInputErrors) {
  EXPECT_NO_THROW(require_precision(Precision::fp32));
  EXPECT_NO_THROW(require_precision(Precision::bf16));
  try {
    require_precision(Precision::fp16);
  } catch (const InputError& error) {
    EXPECT_TRUE(says(error.what(), {"use training.precision=bf16"}));
  }
}

// Everything that is kept stays in float32, and the losses come close to those of float32.
TEST(Precisions, Bf16ReachesTheLossOfFp32) {
  double losses[2];
  for (const int ranks : {1, 2}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      run_as_threads(ranks, [&](const Communicator& communicator) {
        Recorder record;
        FieldTraining training(
            communicator, {.samples = 256, .batch_size = 8, .epochs = 8, .precision = precision});
        training.trainer().add_observer(record);
        EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);
        const bool is_cast = precision == Precision::bf16;
        EXPECT_EQ(training.network().output_type, is_cast ? torch::kBFloat16 : torch::kFloat);
        for (const auto& item : training.trainer().checkpoint().model)
          EXPECT_EQ(item.tensor.scalar_type(), torch::kFloat);
        for (const auto& item : training.trainer().checkpoint().optimizer)
          EXPECT_EQ(item.tensor.scalar_type(), torch::kFloat);
        if (communicator.rank() == 0)
          losses[is_cast ? 1 : 0] = record.epochs.back().validation.mean_loss();
      });
    }
    EXPECT_LT(losses[0], .03);
    EXPECT_NEAR(losses[1], losses[0], .05 * losses[0]);
  }
}

TEST(GradScaler, FollowsPyTorchsRuleAndGoesOnFromItsState) {
  GradScaler scaler({.initial = 8, .growth_interval = 3});
  const auto after = [](GradScaler& updated, bool was_finite) {
    updated.update(torch::tensor(was_finite ? 0 : 1, torch::kInt));
    return updated.scale();
  };
  for (const double scale : {8, 8, 16, 16}) EXPECT_EQ(after(scaler, true), scale);
  EXPECT_EQ(after(scaler, false), 8);
  EXPECT_EQ(after(scaler, true), 8);
  GradScaler other({.growth_interval = 3});
  other.restore(scaler.state());
  for (auto* const each : {&scaler, &other}) {
    EXPECT_EQ(after(*each, true), 8);
    EXPECT_EQ(after(*each, true), 16);
  }
  EXPECT_EQ(scaler.scaled(torch::tensor(.5)).item<double>(), 8);
  GradScaler largest({.initial = 0x1p127, .growth_interval = 1});
  EXPECT_EQ(after(largest, true), 0x1p127) << "it stays finite";
}

TEST(GradScaler, RefusesNumbersThatMakeNoSense) {
  for (const LossScaleOptions& options :
       {LossScaleOptions{.initial = 0}, LossScaleOptions{.growth = .5},
        LossScaleOptions{.growth_interval = 0}, LossScaleOptions{.backoff = 2}})
    EXPECT_THROW((void)GradScaler(options), InputError);
}

FieldSetup scaled(LossScaleOptions options = {}) {
  return {.change = [=](auto& trainer) { trainer.loss_scale = options; }};
}

// Powers of two change no digit, of clipped gradients neither.
TEST(LossScale, ChangesNothingUntilGradientsOverflow) {
  for (const double norm : {0., .05}) {
    const auto setup = [=](bool scales) {
      return FieldSetup{.change = [=](auto& options) {
        options.clip_norm = norm;
        if (scales) options.loss_scale.emplace();
      }};
    };
    FieldTraining plain(Communicator::solo(), setup(false));
    FieldTraining with_scale(Communicator::solo(), setup(true));
    (void)plain.trainer().run();
    (void)with_scale.trainer().run();
    EXPECT_TRUE(with_scale.weights().equal(plain.weights())) << norm;
    EXPECT_EQ(with_scale.trainer().loss_scale(), 65536);
    EXPECT_EQ(plain.trainer().loss_scale(), 1);
  }
}

TEST(LossScale, AnOverflowOnOneRankSkipsTheStepOnAll) {
  for (const int bad_rank : {0, 1}) {
    run_as_threads(2, [&](const Communicator& communicator) {
      auto setup = scaled({.growth_interval = 5});
      setup.loss = [&](int rank, LossFunction l1) {
        return rank == bad_rank ? overflowing(l1, {3, 4}) : l1;
      };
      setup.change = [change = setup.change](auto& options) {
        change(options);
        options.check_replicas_every = 1;
      };
      FieldTraining training(communicator, setup);
      Recorder record;
      training.trainer().add_observer(record);
      EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);  // 3 epochs of 4 steps
      EXPECT_EQ(training.trainer().state().skipped_steps, 2);
      // Two halvings, and one doubling after the five good steps 5 to 9.
      EXPECT_EQ(training.trainer().loss_scale(), 32768);
      EXPECT_TRUE(training.weights().isfinite().all().item<bool>());
      EXPECT_LT(record.epochs.back().validation.mean_loss(), record.untrained->mean_loss());
    });
  }
}

TEST(LossScale, ASkippedStepLeavesParametersAlone) {
  auto setup = scaled();
  setup.loss = [](int, LossFunction l1) { return overflowing(l1, {1, 2, 3, 4, 5, 6, 7, 8}); };
  setup.epochs = 1;
  FieldTraining training(Communicator::solo(), setup);
  const auto before = training.weights();
  EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);
  EXPECT_TRUE(training.weights().equal(before));
  EXPECT_EQ(training.trainer().loss_scale(), 256);
}

TEST(LossScale, GoesOnFromACheckpointToTheSameBits) {
  const auto solo = Communicator::solo();
  const auto setup = [](std::vector<int> bad_calls) {
    auto made = scaled({.growth_interval = 4});
    made.loss = [=](int, LossFunction l1) { return overflowing(l1, bad_calls); };
    return made;
  };
  FieldTraining whole(solo, setup({2, 15}));
  ASSERT_EQ(whole.trainer().run(), TrainOutcome::finished);
  int steps = 0;
  FieldTraining first(solo, setup({2}), [&] { return ++steps == 11; });
  ASSERT_EQ(first.trainer().run(), TrainOutcome::stopped);
  const auto checkpoint = first.trainer().checkpoint();
  EXPECT_EQ(checkpoint.state.at("loss_scale").at("scale"), first.trainer().loss_scale());
  FieldTraining second(solo, setup({4}));
  second.trainer().restore(checkpoint);
  EXPECT_EQ(second.trainer().loss_scale(), first.trainer().loss_scale());
  auto damaged = checkpoint;
  damaged.state["loss_scale"] = {{"scale", "large"}};
  EXPECT_THROW(FieldTraining(solo, setup({4})).trainer().restore(damaged), Error);
  ASSERT_EQ(second.trainer().run(), TrainOutcome::finished);
  EXPECT_TRUE(second.weights().equal(whole.weights()));
  EXPECT_EQ(second.trainer().loss_scale(), whole.trainer().loss_scale());
}

TEST(LossScale, IsSaidInTheLog) {
  std::ostringstream console;
  {
    ProgressBar bar(console, {});
    RunLog log({.console = &console});
    auto setup = scaled();
    setup.loss = [](int, LossFunction l1) { return overflowing(l1, {2}); };
    FieldTraining training(Communicator::solo(), setup);
    ProgressReporter reporter(bar, log, 3, "crops");
    training.trainer().add_observer(reporter);
    (void)training.trainer().run();
  }
  EXPECT_TRUE(says(console.str(), {"1 step of this epoch left out (1 so far), loss scale 32768"}));
}

}  // namespace
}  // namespace kolo::testing
