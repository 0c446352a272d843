#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"
#include "online/linear_task.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

// Rank 0's temporary folder, used by all ranks.
struct SharedFolder {
  explicit SharedFolder(const Communicator& ranks)
      : path(broadcast_bytes(ranks, ranks.rank() == 0 ? own.path().string() : "")) {}
  TemporaryFolder own;
  fs::path path;
};

// Time steps from..to, whose samples depend on rank and step alone.
void simulate(OnlineNetwork& network, const Communicator& ranks, int from, int to) {
  for (int step = from; step <= to; ++step) {
    std::mt19937 random(static_cast<unsigned>(1000 * step + ranks.rank()));
    Cells cells(random, 8);
    network.push(cells.inputs(), cells.targets());
    network.tick(step);
  }
}

RANK_TEST(OnlineSaving, GoesOnToTheSameBits) {
  const SharedFolder folder(communicator);
  // With a stride of 2 some samples of other ranks are refused by a full reservoir and wait.
  for (const auto& [policy, stride] :
       {std::pair("uniform", "1"), {"fifo", "1"}, {"keep_unseen", "1"}, {"keep_unseen", "2"}}) {
    const auto config =
        linear_config({std::string("reservoir.policy=") + policy, "reservoir.capacity=2 KiB",
                       std::string("training.rank_stride=") + stride, "training.every=3",
                       "normalization.inputs=channels"});
    double checksum = 0;
    {
      OnlineNetwork network(communicator, config);
      simulate(network, communicator, 1, 40);
      network.save(folder.path, 40);
      simulate(network, communicator, 41, 70);
      network.save(folder.path, 70);
      checksum = network.get("checksum");
    }
    OnlineNetwork network(communicator, config);
    network.restore(folder.path, 40);
    EXPECT_FALSE(fs::exists(folder.path / "step-00000070"));
    EXPECT_EQ(network.get("steps"), 39 / 3);
    simulate(network, communicator, 41, 70);
    EXPECT_EQ(network.get("checksum"), checksum) << policy;
    EXPECT_TRUE(is_alike(communicator, network));
    communicator.barrier();
  }
}

RANK_TEST(OnlineSaving, IsTakenByAnotherNumberOfRanks) {
  const SharedFolder folder(communicator);
  const auto config = linear_config({"reservoir.capacity=64 KiB"});
  OnlineNetwork network(communicator, config);
  simulate(network, communicator, 1, 20);
  network.save(folder.path, 20);
  const double checksum = network.get("checksum");
  // The last rank restores it alone.
  const auto alone = communicator.split(communicator.rank() == communicator.size() - 1 ? 0 : -1);
  if (alone) {
    OnlineNetwork other(*alone, config);
    other.restore(folder.path, 20);
    EXPECT_EQ(other.get("checksum"), checksum);
    EXPECT_EQ(other.get("stored"), 160 * communicator.size());
    simulate(other, *alone, 21, 30);
  }
  communicator.barrier();
}

// The ranks that train are not the session's first ones.
RANK_TEST(OnlineSaving, IsTakenByOtherRanksThanTheFirst) {
  if (communicator.size() == 1) return;
  const SharedFolder folder(communicator);
  double checksum = 0;
  if (const auto alone = communicator.split(communicator.rank() == 0 ? 0 : -1)) {
    OnlineNetwork network(*alone, linear_config());
    simulate(network, *alone, 1, 20);
    network.save(folder.path, 20);
    checksum = network.get("checksum");
  }
  communicator.barrier();
  const int last = communicator.size() - 1;
  const auto trainers = communicator.size() == 2 ? "1" : fmt::format("1,{}", last);
  OnlineNetwork network(communicator, linear_config({"training.ranks=[" + trainers + "]"}));
  network.restore(folder.path, 20);
  EXPECT_EQ(all_reduce_value(communicator, network.get("stored"), ReduceOp::sum), 160);
  EXPECT_EQ(network.get("checksum"), all_reduce_value(communicator, checksum, ReduceOp::max));
  simulate(network, communicator, 21, 30);
  EXPECT_TRUE(is_alike(communicator, network));
}

RANK_TEST(OnlineSaving, ChangesNothingWhereTheSamplesDoNotFit) {
  const SharedFolder folder(communicator);
  {
    OnlineNetwork network(communicator, linear_config());
    simulate(network, communicator, 1, 20);
    network.save(folder.path, 20);
  }
  OnlineNetwork network(communicator, linear_config({"reservoir.capacity=1 KiB"}));
  simulate(network, communicator, 1, 5);
  const double checksum = network.get("checksum");
  EXPECT_TRUE(says(message_of<InputError>([&] { network.restore(folder.path, 20); }),
                   {"160 samples were saved", "room for 64"}));
  EXPECT_EQ(network.get("checksum"), checksum);
  EXPECT_EQ(network.get("stored"), 40);
  simulate(network, communicator, 6, 8);  // and goes on
  EXPECT_TRUE(is_alike(communicator, network));
}

RANK_TEST(OnlineSaving, RefusesWhatDoesNotFit) {
  const SharedFolder folder(communicator);
  OnlineNetwork network(communicator, linear_config());
  simulate(network, communicator, 1, 5);
  network.save(folder.path, 5);
  const auto words_of = [&](OnlineNetwork& of, std::int64_t tag) {
    return communicator.rank() == 0
               ? message_of<InputError>([&] { of.restore(folder.path, tag); })
               : message_of<CommunicationError>([&] { of.restore(folder.path, tag); });
  };
  EXPECT_NE(words_of(network, 6).find("step-00000006"), std::string::npos);
  OnlineNetwork larger(communicator, linear_config({"model.hidden=[3]"}));
  EXPECT_NE(words_of(larger, 5).find("hidden1.weight"), std::string::npos);
  OnlineNetwork other(communicator, linear_config({"optimizer.name=sgd"}));
  EXPECT_NE(words_of(other, 5).find("optimizer"), std::string::npos);
  simulate(network, communicator, 6, 8);  // and goes on
  EXPECT_TRUE(is_alike(communicator, network));
}

// Each of the ranks that train writes its samples, and one of them the checkpoint that names them.
RANK_TEST(OnlineSaving, RefusesRanksThatDoNotMeanTheSame) {
  if (communicator.size() == 1) return;
  const SharedFolder folder(communicator);
  OnlineNetwork network(communicator, linear_config());
  simulate(network, communicator, 1, 5);
  const bool is_other = communicator.rank() == communicator.size() - 1;
  const auto mine = folder.path / (is_other ? "other" : "one");
  const auto words = message_of<InputError>([&] { network.save(mine, 5); });
  EXPECT_NE(words.find(fmt::format("folder and tag: rank 0 gives \"{}\" and 5, but rank {} gives "
                                   "\"{}\" and 5",
                                   (folder.path / "one").string(), communicator.size() - 1,
                                   (folder.path / "other").string())),
            std::string::npos)
      << words;
  EXPECT_THROW(network.save(folder.path, is_other ? 6 : 5), InputError);
  EXPECT_TRUE(fs::is_empty(folder.path));
  communicator.barrier();
  network.save(folder.path, 5);
  network.save(folder.path, 6);
  EXPECT_THROW(network.restore(folder.path, is_other ? 6 : 5), InputError);
  EXPECT_EQ(network.get("steps"), 4);
  const auto of_tick = message_of<InputError>([&] { (void)network.tick(is_other ? 6 : 5); });
  EXPECT_NE(of_tick.find("and from 5 to 6 on the ranks"), std::string::npos) << of_tick;
  EXPECT_EQ(network.get("steps"), 4);
  simulate(network, communicator, 6, 8);  // and goes on
  EXPECT_TRUE(is_alike(communicator, network));
}

RANK_TEST(OnlineSaving, IsDoneByThoseThatTrainApart) {
  if (communicator.size() % 2 == 1) return;
  const SharedFolder folder(communicator);
  const auto config = linear_config({"training.rank_stride=2", "training.apart=true"});
  OnlineNetwork network(communicator, config);
  if (network.trains()) {
    (void)network.serve();
  } else {
    std::mt19937 random(static_cast<unsigned>(communicator.rank()));
    for (int step = 0; step < 20; ++step) {
      Cells cells(random, 32);
      network.push(cells.inputs(), cells.targets());
      (void)network.refresh();
    }
    network.save(folder.path, 1);
    (void)network.refresh();
    // Restores the saved state, whatever was trained since.
    network.restore(folder.path, 1);
    EXPECT_GE(network.get("version"), 1);
    EXPECT_THROW(network.restore(folder.path, 2), CommunicationError);
    if (communicator.size() > 2) {
      const auto words =
          message_of<InputError>([&] { network.save(folder.path, 4 + communicator.rank()); });
      EXPECT_NE(words.find("and 5, but rank 3 gives "), std::string::npos) << words;
    }
    network.finish();
  }
  EXPECT_TRUE(fs::exists(folder.path / "step-00000001"));
  communicator.barrier();
}

}  // namespace
}  // namespace kolo::testing
