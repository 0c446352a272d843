#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/training_step.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

constexpr std::int64_t batch_size = 6;  // per rank
// Averages gradients in the update, where it can.
constexpr StepSharing sharing{.enabled = true, .smallest_bytes = 0};

struct Replica {
  explicit Replica(const Communicator& communicator, const StepSettings& options = {}, int seed = 1,
                   std::shared_ptr<const FlatOptimizer> optimizer = make_sgd({.momentum = .5}))
      : network(std::make_shared<SmallNetwork>(7, seed)),
        step(communicator, network, std::move(optimizer), options) {}

  // Makes a step on `count` of the data set's samples from `begin` on, with the loss times
  // `factor`.
  TrainingStep::Outcome make(std::int64_t begin, std::int64_t count, std::int64_t number,
                             double factor = 1) {
    step.begin(number);
    network->calls.add_(1);
    const auto loss = mean_loss(*network, samples(begin, begin + count)) * factor;
    step.backward(loss,
                  torch::tensor({loss.item<double>() * static_cast<double>(count), double(count)},
                                torch::kDouble));
    return step.end(step.finish(.05));
  }

  // On this rank's part of a step's samples.
  TrainingStep::Outcome make_part(const Communicator& communicator, std::int64_t number,
                                  double factor = 1) {
    const auto begin = (number * communicator.size() + communicator.rank()) * batch_size;
    return make(begin, batch_size, number, factor);
  }

  std::shared_ptr<SmallNetwork> network;
  TrainingStep step;
};

RANK_TEST(TrainingStep, StepsAreThoseOfOneRankWithAllSamples) {
  const StepSettings plain{.buckets = {64, 64}}, clipping{.buckets = {64, 64}, .clip_norm = .3};
  const StepSettings sharing_too{.buckets = {64, 64}, .shared_step = sharing};
  for (const StepSettings& options : {plain, clipping, sharing_too}) {
    Replica replica(communicator, options, 1 + communicator.rank());  // becomes rank 0's
    Replica alone(Communicator::solo(), options);
    const auto all = batch_size * communicator.size();
    for (std::int64_t number = 1; number <= 4; ++number) {
      const auto mine = replica.make_part(communicator, number);
      const auto expected = alone.make(number * all, all, number);
      ASSERT_EQ(mine.sums.size(), 2U);
      EXPECT_NEAR(mine.sums[0], expected.sums[0], 1e-4);
      EXPECT_EQ(mine.sums[1], all);
      EXPECT_TRUE(mine.is_made);
    }
    expect_parameters(*replica.network, alone.network->parameters(), 1e-5, 1e-6);
  }
}

// Passes that are weighted by their samples add up to one over all of them.
RANK_TEST(TrainingStep, SeveralPassesAreOne) {
  Replica whole(communicator), in_passes(communicator, {.shared_step = sharing});
  const auto begin = communicator.rank() * batch_size;
  for (std::int64_t number = 1; number <= 3; ++number) {
    const auto expected = whole.make(begin, batch_size, number);
    auto& step = in_passes.step;
    step.begin(number);
    for (const std::int64_t first : {std::int64_t{0}, batch_size - 2}) {
      const bool is_last = first > 0;
      const auto count = is_last ? 2 : batch_size - 2;
      const auto loss =
          mean_loss(*in_passes.network, samples(begin + first, begin + first + count));
      step.backward(loss,
                    torch::tensor({loss.item<double>() * static_cast<double>(count), double(count)},
                                  torch::kDouble),
                    static_cast<double>(count) / batch_size, is_last);
    }
    const auto outcome = step.end(step.finish(.05));
    EXPECT_NEAR(outcome.sums[0], expected.sums[0], 1e-4);
    EXPECT_EQ(outcome.sums[1], expected.sums[1]);
  }
  expect_parameters(*whole.network, in_passes.network->parameters(), 1e-5, 1e-6);
}

// One rank has no gradients. Where updates average them, none is made before all ranks know.
RANK_TEST(TrainingStep, AFailureOfOneRankComesBeforeAnySharedUpdate) {
  Replica replica(communicator, {.buckets = {64, 64}, .shared_step = sharing});
  if (!replica.step.optimizer().averages_in_update()) return;
  (void)replica.make_part(communicator, 1);
  communicator.barrier();
  const auto before = copies_of(*replica.network);
  communicator.barrier();
  const bool is_bad = communicator.rank() == communicator.size() - 1;
  replica.step.begin(2);
  if (!is_bad) replica.step.backward(mean_loss(*replica.network, samples(0, batch_size)), {});
  EXPECT_TRUE(says(
      message_of<Error>([&] { (void)replica.step.finish(.05); }),
      {fmt::format("rank {}", communicator.size() - 1), "there was no backward() in this step"}));
  communicator.barrier();
  expect_parameters(*replica.network, before);
  communicator.barrier();
  (void)replica.make_part(communicator, 3);
}

RANK_TEST(TrainingStep, ItBeginsFirst) {
  Replica replica(communicator);
  EXPECT_TRUE(
      says(message_of<Error>([&] { (void)replica.step.finish(.05); }), {"call begin() first"}));
}

TEST(StepSettings, TellWhatExcludesWhat) {
  EXPECT_THAT(conflicts(features_of({})), IsEmpty());
  StepSettings settings{.sharded = true, .world = Communicator::solo(), .virtual_ranks = 2};
  settings.loss_scale.emplace();
  settings.non_finite = NonFiniteStep::skip;
  settings.reducer.hook = power_sgd();
  settings.reducer.unused_parameters = true;
  settings.reducer.communicate = false;
  std::vector<std::string> pairs;
  for (const auto& each : conflicts(features_of(settings)))
    pairs.push_back(fmt::format("{}, {}", name_of(each.feature), name_of(each.other)));
  EXPECT_THAT(
      pairs,
      ElementsAre("virtual ranks, a network in parts", "virtual ranks, unused_parameters",
                  "virtual ranks, no communication", "a gradient hook, virtual ranks",
                  "error feedback (PowerSGD), a loss scale",
                  "error feedback (PowerSGD), steps that may be left out",
                  "a sharded optimizer, virtual ranks", "a sharded optimizer, a gradient hook",
                  "a sharded optimizer, a network in parts",
                  "a sharded optimizer, unused_parameters",
                  "a sharded optimizer, no communication"));
}

// One rank's loss is not finite; no rank keeps anything of the step.
RANK_TEST(TrainingStep, AStepThatIsNotFiniteLeavesNothingBehind) {
  Replica replica(communicator, {.non_finite = NonFiniteStep::skip});
  EXPECT_TRUE(replica.make_part(communicator, 1).is_made);
  const auto before = copies_of(*replica.network);
  const auto calls = replica.network->calls.clone();
  const bool is_bad = communicator.rank() == communicator.size() - 1;
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(replica.make_part(communicator, 2, is_bad ? infinity : 1).is_made);
  expect_parameters(*replica.network, before);
  EXPECT_TRUE(replica.network->calls.equal(calls));
  EXPECT_TRUE(replica.make_part(communicator, 3).is_made);
  EXPECT_FALSE(replica.network->first->weight.equal(before[0]));
}

// As in PyTorch, whose optimizers see no such step: the corrections of Adam's moments go by the
// steps made.
RANK_TEST(TrainingStep, AStepThatIsLeftOutIsNotCounted) {
  for (const bool sharded : {false, true}) {
    const StepSettings settings{.sharded = sharded, .non_finite = NonFiniteStep::skip};
    const std::shared_ptr<const FlatOptimizer> adam = make_adam({});
    Replica with_gaps(communicator, settings, 1, adam), without(communicator, settings, 1, adam);
    const double infinity = std::numeric_limits<double>::infinity();
    std::int64_t number = 0;
    for (std::int64_t made = 1; made <= 3; ++made) {
      EXPECT_FALSE(with_gaps.make_part(communicator, ++number, infinity).is_made);
      ++number;
      const auto begin = (made * communicator.size() + communicator.rank()) * batch_size;
      EXPECT_TRUE(with_gaps.make(begin, batch_size, number).is_made);
      EXPECT_TRUE(without.make(begin, batch_size, made).is_made);
      expect_parameters(*with_gaps.network, without.network->parameters());
    }
  }
}

// Powers of two change no digit, until gradients overflow.
RANK_TEST(TrainingStep, ALossScaleIsTakenOutAgain) {
  Replica plain(communicator);
  Replica scaled(communicator, {.loss_scale = LossScaleOptions{.initial = 1024}});
  for (std::int64_t number = 1; number <= 3; ++number) {
    EXPECT_TRUE(plain.make_part(communicator, number).is_made);
    EXPECT_TRUE(scaled.make_part(communicator, number).is_made);
  }
  expect_parameters(*scaled.network, plain.network->parameters());
  EXPECT_EQ(plain.step.scaler(), nullptr);
  scaled.step.scaler()->restore({.scale = 0x1p120});
  const bool overflows = communicator.rank() == 0;
  EXPECT_FALSE(scaled.make_part(communicator, 4, overflows ? 1e6 : 1).is_made);
  EXPECT_EQ(scaled.step.scaler()->scale(), 0x1p119);
  expect_parameters(*scaled.network, plain.network->parameters());
}

}  // namespace

}  // namespace kolo::testing
