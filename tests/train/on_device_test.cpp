// A training on a device is that of the host. The simulated one has memory that no host code can
// touch.

#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"
#include "support/test_devices.h"
#include "train/training_fixture.h"

#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"

namespace kolo::testing {
namespace {

ThreadRanksOptions with_devices() {
  return {.devices = test_device_options()};
}

// Dropout's masks are random numbers, which ranks that are threads draw from one generator.
TrainingSetup here() {
  return {.samples = 60, .epochs = 2, .dropout = 0, .top = 2};
}

TrainingSetup there() {
  auto setup = here();
  setup.device = test_device;
  return setup;
}

void expect_the_same(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.record.losses.size(), b.record.losses.size());
  for (std::size_t step = 0; step < a.record.losses.size(); ++step)
    EXPECT_NEAR(a.record.losses[step], b.record.losses[step], 1e-5) << "step " << step;
  EXPECT_TRUE(a.weights.cpu().allclose(b.weights.cpu(), 1e-4, 1e-5));
  for (std::size_t epoch = 0; epoch < a.record.epochs.size(); ++epoch) {
    const auto &first = a.record.epochs.at(epoch), &second = b.record.epochs.at(epoch);
    EXPECT_EQ(first.training.correct, second.training.correct);
    EXPECT_EQ(first.validation.correct, second.validation.correct);
    EXPECT_EQ(first.validation.in_top, second.validation.in_top);
  }
}

TEST(TrainerOnADevice, TrainsAndValidatesAsOnTheHost) {
  for (const int ranks : {1, 2})
    expect_the_same(train_on(ranks, here()), train_on(ranks, there(), with_devices()));
}

TrainingSetup with(TrainingSetup setup, std::function<void(TrainerOptions&)> change) {
  setup.change = std::move(change);
  return setup;
}

TEST(TrainerOnADevice, ClipsSkipsAndComparesReplicas) {
  const auto checks = [](TrainerOptions& options) {
    options.clip_norm = .5;
    options.non_finite = NonFiniteStep::skip;
    options.check_replicas_every = 3;
  };
  expect_the_same(train_on(2, with(here(), checks)),
                  train_on(2, with(there(), checks), with_devices()));
}

// A checkpoint knows nothing of where it was made.
TEST(TrainerOnADevice, CheckpointsGoFromDeviceToHostAndBack) {
  const TemporaryFolder folder;
  const auto whole = train_on(1, here());
  int number = 0;
  const auto go_on = [&](const TrainingSetup& first_half, const TrainingSetup& second_half) {
    CheckpointStore store({folder.path() / std::to_string(++number)});
    auto first = first_half;
    first.epochs = 1;
    const auto solo = Communicator::solo(test_device_options());
    SmallTraining beginning(solo, first);
    EXPECT_EQ(beginning.trainer().run(), TrainOutcome::finished);
    store.save(beginning.trainer().state().step, beginning.trainer().checkpoint(), false);
    auto loaded = store.load_newest([](const auto&) {});
    SmallTraining rest(solo, second_half);
    rest.trainer().restore(std::move(loaded.value().content));
    EXPECT_EQ(rest.trainer().run(), TrainOutcome::finished);
    EXPECT_TRUE(rest.weights().cpu().allclose(whole.weights, 1e-4, 1e-5));
  };
  go_on(there(), here());
  go_on(here(), there());
}

// The device is ahead of what is known of it.
TEST(TrainerOnADevice, CheckpointsAreOfSettledSteps) {
  auto setup = there();
  setup.epochs = 1;
  setup.change = [](TrainerOptions& options) { options.settle_every = 3; };
  const auto solo = Communicator::solo(test_device_options());
  SmallTraining training(solo, setup);
  auto& trainer = training.trainer();
  std::vector<std::int64_t> saved, refused;
  AtSteps observer([&](const StepReport& report) {
    try {
      const auto checkpoint = trainer.checkpoint();
      EXPECT_EQ(checkpoint.state.at("step"), report.state.step);
      EXPECT_EQ(checkpoint.state.at("sums").at("samples"),
                std::min(setup.samples, 8 * report.state.step));
      saved.push_back(report.state.step);
    } catch (const Error& error) {
      EXPECT_TRUE(says(error.what(), {"settle_every"}));
      refused.push_back(report.state.step);
    }
  });
  trainer.add_observer(observer);
  EXPECT_EQ(trainer.run(), TrainOutcome::finished);
  EXPECT_THAT(saved, ::testing::ElementsAre(3, 6, 8)) << "the last one of the epoch too";
  EXPECT_THAT(refused, ::testing::ElementsAre(1, 2, 4, 5, 7));
}

// One step later than on the host, on all ranks alike, and nothing of it is lost.
TEST(TrainerOnADevice, StopsAfterTheNextStepAndGoesOn) {
  const auto whole = train_on(2, here());
  const auto body = [&](const Communicator& communicator) {
    int asked = 0;
    const bool asks = communicator.rank() == 1;
    SmallTraining first(communicator, there(), [&] { return asks && ++asked == 2; });
    EXPECT_EQ(first.trainer().run(), TrainOutcome::stopped);
    EXPECT_EQ(first.trainer().state().step, 3);
    const auto saved = first.trainer().checkpoint();
    SmallTraining rest(communicator, there());
    rest.trainer().restore(communicator.rank() == 0 ? std::optional(saved) : std::nullopt);
    EXPECT_EQ(rest.trainer().run(), TrainOutcome::finished);
    EXPECT_TRUE(rest.weights().cpu().allclose(whole.weights, 1e-4, 1e-5));
  };
  run_as_threads(2, body, with_devices());
}

TEST(TrainerOnADevice, NamesTheStepThatIsNotFinite) {
  auto setup = there();
  setup.learning_rate = 1e30;
  EXPECT_TRUE(says(message_of<Error>([&] { (void)train_on(1, setup, with_devices()); }),
                   {"the loss of step 2 is"}));
}

// A recorded step reads each batch in the same place, and takes the rate and number of its own.
TEST(TrainerOnADevice, RecordedStepsAreTheSame) {
  const auto steps = [](bool graphs) {
    return with(there(), [=](TrainerOptions& options) {
      options.graphs = graphs;
      options.clip_norm = .5;
      options.non_finite = NonFiniteStep::skip;
    });
  };
  const int ranks = is_gpu_wanted() ? 1 : 2;  // of one GPU NCCL takes one
  expect_the_same(train_on(ranks, steps(false), with_devices()),
                  train_on(ranks, steps(true), with_devices()));
}

}  // namespace
}  // namespace kolo::testing
