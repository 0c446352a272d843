#include <cmath>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/train/observe/history.h"
#include "online/linear_task.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

RANK_TEST(OnlineTraining, LearnsInTimeSteps) {
  OnlineNetwork network(communicator, linear_config());
  auto random = random_of(communicator);
  const double before = error_of(network);
  TickReport report;
  for (int step = 1; step <= 400; ++step) {
    Cells cells(random, 8);
    const auto pushed = network.push(cells.inputs(), cells.targets());
    EXPECT_EQ(pushed.taken, 8);
    report = network.tick(step);
    if (step == 1) {
      EXPECT_EQ(report.steps, 0);  // 8 samples make no batch of 16
      EXPECT_EQ(report.waiting_for, 0);
      EXPECT_TRUE(std::isnan(report.loss));
    } else {
      EXPECT_EQ(report.steps, 1);
    }
  }
  EXPECT_EQ(report.all_steps, 399);
  EXPECT_EQ(report.version, 399);
  EXPECT_EQ(report.arrivals, 400 * 8 * communicator.size());
  EXPECT_LT(error_of(network), .05);
  EXPECT_GT(before, .5);
  EXPECT_TRUE(is_alike(communicator, network));
}

RANK_TEST(OnlineTraining, TakesEveryFewTimeStepsUntilItsStepsAreDone) {
  OnlineNetwork network(communicator, linear_config({"training.every=5", "training.n_steps=3",
                                                     "training.max_steps=7"}));
  auto random = random_of(communicator);
  const std::vector<std::int64_t> expected = {3, 3, 1, 0};
  for (int step = 1; step <= 20; ++step) {
    Cells cells(random, 16);
    network.push(cells.inputs(), cells.targets());
    const auto steps = step % 5 == 0 ? expected[static_cast<std::size_t>(step / 5 - 1)] : 0;
    EXPECT_EQ(network.tick(step).steps, steps);
  }
}

RANK_TEST(OnlineTraining, TrainsOnWhatItIsGiven) {
  OnlineNetwork network(communicator, linear_config());
  auto random = random_of(communicator);
  double loss = 0;
  for (int step = 0; step < 300; ++step) {
    Cells cells(random, 32);
    loss = network.train(cells.inputs(), cells.targets());
  }
  EXPECT_LT(loss, 1e-3);
  EXPECT_LT(error_of(network), .05);
  EXPECT_EQ(network.get("steps"), 300);
}

// A step of ranks with different numbers of samples is one of a single rank with all of them.
RANK_TEST(OnlineTraining, CountsRanksByTheirSamples) {
  const auto config =
      linear_config({"optimizer.name=sgd", "optimizer.lr=0.1", "optimizer.lr_scaling=none"});
  OnlineNetwork network(communicator, config), alone(Communicator::solo(), config);
  std::mt19937 random(7);
  for (int step = 0; step < 20; ++step) {
    Cells all(random, 0);
    std::optional<Cells> mine;
    for (int rank = 0; rank < communicator.size(); ++rank) {
      Cells cells(random, 4 + 20 * rank);
      all.a.insert(all.a.end(), cells.a.begin(), cells.a.end());
      all.b.insert(all.b.end(), cells.b.begin(), cells.b.end());
      all.y.insert(all.y.end(), cells.y.begin(), cells.y.end());
      if (rank == communicator.rank()) mine = cells;
    }
    const double loss = network.train(mine->inputs(), mine->targets());
    EXPECT_NEAR(loss, alone.train(all.inputs(), all.targets()), 1e-5);
  }
  EXPECT_NEAR(error_of(network), error_of(alone), 1e-4);
}

RANK_TEST(OnlineTraining, MakesAStepOfOthersWithZerosForARankThatFails) {
  if (communicator.size() == 1) return;
  const bool fails = communicator.rank() == 0;
  OnlineComponents components;
  components.loss = [fails](const auto& outputs, const auto& targets, const auto&) {
    if (fails) throw Error("it fails here");
    return torch::mse_loss(outputs[0], targets[0]);
  };
  OnlineNetwork network(communicator, linear_config(), components);
  auto random = random_of(communicator);
  Cells cells(random, 16);
  const double before = network.get("checksum");
  const auto train = [&] { (void)network.train(cells.inputs(), cells.targets()); };
  if (fails) {
    EXPECT_TRUE(says(message_of<Error>(train), {"step 1 failed", "it fails here"}));
  } else {
    EXPECT_TRUE(says(message_of<CommunicationError>(train),
                     {"step 1 failed on 1 other ranks", "zeros in place of their gradients"}));
  }
  EXPECT_NE(network.get("checksum"), before);
  EXPECT_TRUE(is_alike(communicator, network));
}

RANK_TEST(OnlineTraining, TellsAllRanksOfOnesMistake) {
  OnlineNetwork network(communicator, linear_config());
  auto random = random_of(communicator);
  Cells cells(random, 16);
  const bool is_wrong = communicator.rank() == communicator.size() - 1;
  auto inputs = cells.inputs();
  if (is_wrong) inputs.pop_back();
  // The first call sets the shapes, so it is made on the right ones.
  Cells known(random, 16);
  network.push(known.inputs(), known.targets());
  const auto train = [&] { (void)network.train(inputs, cells.targets()); };
  if (is_wrong) {
    const auto words = message_of<InputError>(train);
    EXPECT_NE(words.find("inputs: samples of [1], but those before were [2]"), std::string::npos)
        << words;
  } else {
    const auto words = message_of<CommunicationError>(train);
    EXPECT_NE(words.find("another rank could not take part"), std::string::npos) << words;
    EXPECT_NE(words.find("samples of [1]"), std::string::npos) << words;
  }
  // Training continues.
  EXPECT_EQ(network.tick(1).steps, 1);
  EXPECT_TRUE(is_alike(communicator, network));
}

// A call that no step could have used must not decide what later ones are to be.
RANK_TEST(OnlineTraining, RefusesFirstSamplesThatTheNetworkOrTheLossDoesNotTake) {
  for (const char* const stride : {"1", "2"}) {
    OnlineNetwork network(communicator,
                          linear_config({std::string("training.rank_stride=") + stride}));
    auto random = random_of(communicator);
    Cells cells(random, 16);
    const auto one = cells.targets();
    auto two = one, three = cells.inputs();
    two.push_back(one.front());
    three.push_back(one.front());
    const auto is_refused = [&](const std::vector<Array>& inputs, const std::vector<Array>& targets,
                                const std::vector<Array>& extras, std::string_view words) {
      const auto push = [&] { (void)network.push(inputs, targets, extras); };
      const auto of_push = message_of<InputError>(push);
      EXPECT_NE(of_push.find(words), std::string::npos) << of_push;
      if (!network.trains()) {
        EXPECT_THROW((void)network.train(inputs, targets, extras), CommunicationError);
        return;
      }
      const auto of_train =
          message_of<InputError>([&] { (void)network.train(inputs, targets, extras); });
      EXPECT_NE(of_train.find(words), std::string::npos) << of_train;
    };
    is_refused(three, one, {},
               "inputs [3]: model mlp: the input is [1, 3], expected [N, ...] of 2");
    is_refused(cells.inputs(), two, {},
               "targets: loss: mse of outputs [1, 1] of Float and targets "
               "[1, 2] of Float");
    is_refused(cells.inputs(), one, one, "extras: samples of [1]; expected none");
    EXPECT_EQ(network.get("stored"), 0);
    EXPECT_EQ(network.get("steps"), 0);
    EXPECT_EQ(network.push(cells.inputs(), one).taken, 16);
    EXPECT_EQ(network.tick(1).steps, 1);
    EXPECT_TRUE(is_alike(communicator, network));
  }
}

RANK_TEST(OnlineTraining, LeavesOutSamplesThatAreNotFinite) {
  OnlineNetwork network(communicator, linear_config());
  auto random = random_of(communicator);
  Cells cells(random, 20);
  cells.a[3] = std::numeric_limits<double>::quiet_NaN();
  cells.y[7] = std::numeric_limits<double>::infinity();
  const auto report = network.push(cells.inputs(), cells.targets());
  EXPECT_EQ(report.taken, 18);
  EXPECT_EQ(report.not_finite, 2);
  for (int step = 1; step <= 10; ++step) EXPECT_TRUE(std::isfinite(network.tick(step).loss));
}

RANK_TEST(OnlineTraining, RefusesWhatKeepUnseenHasNoRoomFor) {
  for (const bool drops : {false, true}) {
    auto config = linear_config({"reservoir.policy=keep_unseen", "reservoir.capacity=1 KiB"});
    config.reservoir.when_full = drops ? WhenFull::drop : WhenFull::refuse;
    OnlineNetwork network(communicator, config);
    auto random = random_of(communicator);
    Cells cells(random, 100);
    auto report = network.push(cells.inputs(), cells.targets());
    const auto capacity = static_cast<std::int64_t>(network.get("capacity"));
    EXPECT_LT(capacity, 100);
    EXPECT_EQ(report.taken, capacity);
    EXPECT_EQ(drops ? report.dropped : report.refused, 100 - capacity);
    EXPECT_EQ(network.tick(1).steps, 1);
    report = network.push(cells.inputs(), cells.targets());
    EXPECT_EQ(report.taken, 16);  // drawn samples make room
  }
}

RANK_TEST(OnlineTraining, GoesOnInTheBackground) {
  if (communicator.size() > 1 && !communicator.capabilities().concurrent) return;
  OnlineNetwork network(communicator, linear_config({"training.background=true"}));
  auto random = random_of(communicator);
  for (int i = 0; i < 4; ++i) {
    Cells cells(random, 50);
    network.push(cells.inputs(), cells.targets());
  }
  EXPECT_EQ(network.tick(0).steps, 0);
  network.start();
  EXPECT_THROW(network.start(), Error);
  std::int64_t version = 0;
  for (int step = 1; version < 300 && step < 20000; ++step) {
    Cells cells(random, 2);
    network.push(cells.inputs(), cells.targets());
    const auto report = network.tick(step);
    EXPECT_GE(report.version, version);
    version = report.version;
    EXPECT_TRUE(is_alike(communicator, network));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(version, 300);
  network.pause();
  EXPECT_GE(network.get("version"), version);
  EXPECT_LT(error_of(network), .05);
  EXPECT_TRUE(is_alike(communicator, network));
  network.start();  // and is ended by the destructor
}

// Publications come at steps that nobody chooses.
RANK_TEST(OnlineTraining, RecordsWhatItDoesInTheBackground) {
  if (communicator.size() > 1 && !communicator.capabilities().concurrent) return;
  const TemporaryFolder folder;
  auto config = linear_config({"training.background=true", "training.log_every=7"});
  if (communicator.rank() == 0) config.output_dir = (folder / "run").string();
  config.output_dir = broadcast_bytes(communicator, config.output_dir);
  std::int64_t all_steps = 0, taken = 0;
  const Stopwatch watch;
  {
    OnlineNetwork network(communicator, config);
    auto random = random_of(communicator);
    Cells cells(random, 50);
    network.push(cells.inputs(), cells.targets());
    network.start();
    for (int step = 1; all_steps < 200 && step < 20000; ++step) {
      const auto report = network.tick(step);
      taken += report.all_steps / 7 > all_steps / 7 ? 1 : 0;
      all_steps = report.all_steps;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  if (communicator.rank() > 0) return;
  const auto history = History::read(folder / "run/history.json");
  ASSERT_EQ(history.steps().size(), static_cast<std::size_t>(taken));
  EXPECT_EQ(history.steps().back().step / 7, all_steps / 7);
  double seconds = 0;
  std::int64_t last = 0;
  for (const auto& record : history.steps()) {
    const auto more = static_cast<double>(record.step - std::exchange(last, record.step));
    seconds += more * 16 * communicator.size() / record.samples_per_second;
  }
  EXPECT_GT(seconds, 0);
  EXPECT_LE(seconds, watch.seconds());
}

}  // namespace
}  // namespace kolo::testing

// Settings of all rank tests of this room.
namespace kolo::testing {

std::vector<RankSetting> thread_settings(std::string_view /*suite*/) {
  std::vector<RankSetting> settings;
  for (const int ranks : {1, 2, 3, 4}) settings.push_back(on_threads(ranks));
  return settings;
}

std::vector<RankSetting> process_settings(std::string_view /*suite*/) {
  return {on_processes("by default")};
}

std::vector<RankSetting> mpi_settings(std::string_view /*suite*/, int ranks) {
  std::vector<RankSetting> settings = {on_mpi("by default")};
  if (ranks > 1) settings.push_back(on_mpi("by MPI alone", {.shared_memory = SharedMemory::off}));
  return settings;
}

}  // namespace kolo::testing
