// The noise of gradients as a training measures it, and AdaScale, which steps by it.
#include <cmath>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/comm/threads.h"
#include "support/errors.h"
#include "support/says.h"
#include "train/training_fixture.h"

namespace kolo {
namespace {

using testing::expect_to_go_on_to;
using testing::message_of;
using testing::SmallTraining;
using testing::train_on;
using testing::TrainingSetup;

void measure_every(TrainerOptions& options, std::int64_t steps) {
  options.noise_scale_every = steps;
}

// 4 ranks with 8 samples each: so much as 2 epochs of batches of 8 of 100 samples.
TrainingSetup adascale_setup() {
  return {.samples = 100, .dropout = 0, .change = [](TrainerOptions& options) {
            options.n_epochs = 8;
            options.noise_scale_every = 1;
            options.adascale = {.batch = 8, .steps_per_epoch = 13, .epochs = 2};
          }};
}

TEST(GradientNoiseOfATraining, ChangesNoBitOfIt) {
  const TrainingSetup setup{.samples = 96, .dropout = 0};
  const auto plain = train_on(2, setup);
  for (const std::int64_t every : {1, 3}) {
    auto measured = setup;
    measured.change = [=](auto& options) { measure_every(options, every); };
    EXPECT_TRUE(train_on(2, measured).weights.equal(plain.weights));
  }
}

TEST(GradientNoiseOfATraining, IsTheSameOnAllRanksAndGoesIntoCheckpoints) {
  const TrainingSetup setup{
      .samples = 96, .dropout = 0, .change = [](auto& options) { measure_every(options, 2); }};
  std::array<double, 3> scales{};
  run_as_threads(3, [&](const Communicator& communicator) {
    SmallTraining training(communicator, setup);
    ASSERT_EQ(training.trainer().run(), TrainOutcome::finished);
    const auto noise = training.trainer().gradient_noise();
    ASSERT_TRUE(noise.has_value());
    scales.at(static_cast<std::size_t>(communicator.rank())) = noise->scale();
    SmallTraining other(communicator, setup);
    const auto checkpoint = training.trainer().checkpoint();
    other.trainer().restore(communicator.rank() == 0 ? std::optional(checkpoint) : std::nullopt);
    EXPECT_EQ(other.trainer().gradient_noise()->gradient, noise->gradient);
    EXPECT_EQ(other.trainer().gradient_noise()->noise, noise->noise);
  });
  EXPECT_GT(scales[0], 0);
  EXPECT_EQ(scales[1], scales[0]);
  EXPECT_EQ(scales[2], scales[0]);
}

TEST(GradientNoiseOfATraining, TakesTwoRanks) {
  SmallTraining training(Communicator::solo(),
                         {.change = [](auto& options) { measure_every(options, 1); }});
  ASSERT_EQ(training.trainer().run(), TrainOutcome::finished);
  EXPECT_FALSE(training.trainer().gradient_noise());
}

TEST(GradientNoiseOfATraining, CanNotBeHadWithWhatHidesGradients) {
  const auto refusal = [](const std::function<void(TrainerOptions&)>& change) {
    return message_of<Error>([&] {
      SmallTraining training(Communicator::solo(), {.change = [&](TrainerOptions& options) {
                               measure_every(options, 1);
                               change(options);
                             }});
    });
  };
  EXPECT_TRUE(says(refusal([](auto& options) { options.loss_scale.emplace(); }), {"a loss scale"}));
  EXPECT_TRUE(
      says(refusal([](auto& options) { options.sharded = true; }), {"a sharded optimizer"}));
  EXPECT_TRUE(says(refusal([](auto& options) {
                     options.adascale = {.batch = 8, .steps_per_epoch = 1};
                     options.noise_scale_every = 2;
                   }),
                   {"of every step"}));
}

// On one rank with the base batch it is plain SGD.
TEST(AdaScale, IsPlainWhereTheBatchIsTheBase) {
  const TrainingSetup plain{.samples = 100, .dropout = 0};
  const auto expected = train_on(1, plain);
  const auto found = train_on(1, adascale_setup());
  EXPECT_EQ(found.state.step, 26);
  EXPECT_EQ(found.state.base_steps, 26);
  EXPECT_TRUE(found.weights.equal(expected.weights));
}

TEST(AdaScale, EndsWhenItsStepsAreWorthTheBases) {
  const auto outcome = train_on(4, adascale_setup());
  const auto steps = static_cast<double>(outcome.state.step);
  EXPECT_GE(outcome.state.base_steps, 26);
  EXPECT_LT(outcome.state.base_steps, 26 + 4);
  EXPECT_GT(outcome.state.base_steps, steps);      // the gain is above 1
  EXPECT_LT(outcome.state.base_steps, 4 * steps);  // and at most the ranks
}

TEST(AdaScale, GoesOnToTheSameBits) {
  const auto setup = adascale_setup();
  const auto whole = train_on(4, setup);
  run_as_threads(4, [&](const Communicator& communicator) {
    expect_to_go_on_to(whole.weights, communicator, setup, 6);
  });
}

}  // namespace
}  // namespace kolo
