#include <limits>

#include <gtest/gtest.h>

#include "kolo/base/error.h"
#include "online/linear_task.h"
#include "online/roles.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

TEST(Roles, DealTheOthersToThoseThatTrain) {
  OnlineTrainingConfig training;
  training.ranks = {1, 4};
  std::vector<int> taken(6);
  for (int rank = 0; rank < 6; ++rank) {
    const auto roles = online::Roles::of(training, rank, 6);
    EXPECT_EQ(roles.trainers, (std::vector{1, 4}));
    EXPECT_EQ(roles.trains, rank == 1 || rank == 4);
    for (const int client : roles.clients) {
      ++taken[static_cast<std::size_t>(client)];
      EXPECT_EQ(online::Roles::of(training, client, 6).trainer, rank);
    }
  }
  EXPECT_EQ(taken, (std::vector{1, 0, 1, 1, 0, 1}));
  EXPECT_EQ(message_of<InputError>([&] { (void)online::Roles::of(training, 0, 4); }),
            "training.ranks: rank 4 is to train, but there are 4 ranks, from 0 to 3");
}

TEST(Roles, AreRefusedWhereTooFewCompute) {
  OnlineTrainingConfig training;
  training.ranks = {0, 1};
  training.apart = true;
  EXPECT_EQ(message_of<InputError>([&] { (void)online::Roles::of(training, 0, 3); }),
            "training.apart: of 3 ranks 2 would train and 1 compute; each that trains takes the "
            "samples of one that computes at least: name fewer in training.ranks, or give a larger "
            "training.rank_stride");
}

RANK_TEST(OnlineRoles, SomeTrainForAll) {
  if (communicator.size() < 2) return;
  OnlineNetwork network(communicator, linear_config({"training.rank_stride=2"}));
  EXPECT_EQ(network.trains(), communicator.rank() % 2 == 0);
  std::mt19937 random(static_cast<unsigned>(communicator.rank()));
  TickReport report;
  for (int step = 1; step <= 300; ++step) {
    Cells cells(random, 16);
    // Training ranks push nothing, so all samples come from the others.
    if (communicator.rank() % 2 == 1) network.push(cells.inputs(), cells.targets());
    report = network.tick(step);
    EXPECT_EQ(report.version, report.all_steps);
  }
  EXPECT_TRUE(is_alike(communicator, network));
  // A third trainer has nobody to take samples from.
  if (communicator.size() != 3) {
    EXPECT_LT(error_of(network), .05);
    EXPECT_EQ(report.arrivals, 300 * 16 * (communicator.size() / 2));
  } else {
    EXPECT_EQ(report.waiting_for, 2);
  }
}

// A full reservoir refuses samples that are on their way already.
RANK_TEST(OnlineRoles, LoseNoSamplesThatWereTaken) {
  if (communicator.size() < 2 || communicator.size() == 3) return;
  OnlineNetwork network(communicator,
                        linear_config({"training.rank_stride=2", "reservoir.policy=keep_unseen",
                                       "reservoir.capacity=1 KiB"}));
  std::mt19937 random(static_cast<unsigned>(communicator.rank()));
  PushReport all;
  for (int step = 1; step <= 40; ++step) {
    Cells cells(random, 40);
    cells.a[3] = std::numeric_limits<double>::quiet_NaN();
    if (!network.trains() && step <= 20) {
      const auto report = network.push(cells.inputs(), cells.targets());
      EXPECT_EQ(report.taken + report.refused + report.not_finite, 40);
      if (step == 1) {
        EXPECT_EQ(report.not_finite, 1);
      }
      all.taken += report.taken;
      all.refused += report.refused;
    }
    EXPECT_EQ(network.tick(step).steps, 1);
  }
  EXPECT_EQ(all.refused > 0, !network.trains());
  EXPECT_EQ(all_reduce_value(communicator, network.get("arrivals"), ReduceOp::sum),
            all_reduce_value(communicator, static_cast<double>(all.taken), ReduceOp::sum));
}

RANK_TEST(OnlineRoles, TrainApart) {
  if (communicator.size() % 2 == 1) return;
  const TemporaryFolder own;
  const auto config = linear_config({"training.rank_stride=2", "training.apart=true"});
  const bool trains = communicator.rank() % 2 == 0;
  OnlineNetwork network(communicator, config);
  if (trains) {
    EXPECT_THROW((void)network.tick(1), StateError);
    const auto report = network.serve();
    EXPECT_GT(report.steps, 0);
    EXPECT_EQ(report.all_steps, report.version);
  } else {
    EXPECT_THROW((void)network.serve(), StateError);
    std::mt19937 random(static_cast<unsigned>(communicator.rank()));
    std::int64_t version = 0;
    for (int step = 1; version < 300 && step < 100000; ++step) {
      Cells cells(random, 16);
      network.push(cells.inputs(), cells.targets());
      const auto now = network.refresh();
      EXPECT_GE(now, version);
      version = now;
    }
    EXPECT_GE(version, 300);
    EXPECT_LT(error_of(network), .05);
    network.finish();
    EXPECT_THROW((void)network.refresh(), StateError);
  }
  // All computing ranks have used the same last version.
  const double none = trains ? -1 : network.get("checksum");
  const double most = all_reduce_value(communicator, none, ReduceOp::max);
  EXPECT_EQ(trains ? most : none, most);
}

}  // namespace
}  // namespace kolo::testing
