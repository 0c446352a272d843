// Checkpoints that are written while a training goes on, by one rank or several.
#include <filesystem>

#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint_observer.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"
#include "train/training_fixture.h"

namespace kolo::testing {
namespace {

// Trains two epochs of a few steps, with a checkpoint after every second step.
void train_with_checkpoints(const std::filesystem::path& folder, int ranks, int shards,
                            bool asynchronous) {
  run_as_threads(ranks, [&](const Communicator& communicator) {
    SmallTraining training(communicator, {.dropout = 0});  // whose masks threads would share
    std::vector<int> writers(static_cast<std::size_t>(shards));
    for (int i = 0; i < shards; ++i) writers[static_cast<std::size_t>(i)] = i;
    const auto group = communicator.subset(writers);
    CheckpointStore store({folder, 100});
    std::optional<CheckpointObserver> observer;
    if (group) {
      const ShardWriter shard{group->rank(), shards, [group](const std::string& note) {
                                return all_gather_bytes(*group, note);
                              }};
      observer.emplace(training.trainer(), &store,
                       CheckpointSaving{.every_steps = 2,
                                        .asynchronous = asynchronous,
                                        .shard = shard,
                                        .writers_here = shards});
      training.trainer().add_observer(*observer);
    }
    EXPECT_EQ(training.trainer().run(), TrainOutcome::finished);
  });
}

void expect_same(const std::vector<NamedTensor>& wanted, const std::vector<NamedTensor>& found) {
  ASSERT_EQ(wanted.size(), found.size());
  for (const auto& item : wanted)
    EXPECT_TRUE(saved_tensor(found, item.name, item.tensor.sizes()).equal(item.tensor))
        << item.name;
}

TEST(BackgroundCheckpoints, HoldWhatTheirStepHadWhoeverWritesThem) {
  const TemporaryFolder folder;
  train_with_checkpoints(folder / "plain", 3, 1, false);
  const auto plain = CheckpointStore({folder / "plain"}).list();
  ASSERT_GE(plain.size(), 4U);
  for (const int shards : {1, 2, 3}) {
    const auto place = folder / std::to_string(shards);
    train_with_checkpoints(place, 3, shards, true);
    const auto list = CheckpointStore({place}).list();
    ASSERT_EQ(list.size(), plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(list[i].is_best, plain[i].is_best);
      const auto a = CheckpointStore::load(plain[i].path), b = CheckpointStore::load(list[i].path);
      EXPECT_EQ(a.step, b.step);
      expect_same(a.content.model, b.content.model);
      expect_same(a.content.optimizer, b.content.optimizer);
    }
  }
}

TEST(BackgroundCheckpoints, ACopyStaysAsItWasAndItsMemoryIsUsedAgain) {
  SmallTraining training(Communicator::solo(), {.epochs = 1});
  const auto& trainer = training.trainer();
  auto memory = SnapshotMemory::get(trainer.checkpoint_bytes());
  const auto before = trainer.checkpoint({&*memory});
  const auto& weight = before.model.front().tensor;
  const auto values = weight.clone();
  const void* const place = weight.data_ptr();
  (void)training.trainer().run();
  EXPECT_TRUE(weight.equal(values));
  const auto after = trainer.checkpoint({&*memory});
  EXPECT_EQ(after.model.front().tensor.data_ptr(), place);
  EXPECT_FALSE(after.model.front().tensor.equal(values));
}

TEST(BackgroundCheckpoints, WithoutMemoryForACopyTrainingWaitsAndSaysSoOnce) {
  const TemporaryFolder folder;
  CheckpointStore store({folder / "checkpoints"});
  SmallTraining training(Communicator::solo(), {.epochs = 1});
  std::vector<std::string> warnings;
  std::vector<std::int64_t> saved;
  // As if a billion others were about to take as much.
  CheckpointObserver observer(
      training.trainer(), &store, {.every_steps = 5, .writers_here = 1'000'000'000},
      {.on_saved =
           [&](const SavedCheckpoint& each) {
             EXPECT_EQ(each.step, training.trainer().state().step);
             saved.push_back(each.step);
           },
       .warn = [&](const std::string& warning) { warnings.push_back(warning); }});
  training.trainer().add_observer(observer);
  (void)training.trainer().run();
  EXPECT_GE(saved.size(), 3U);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(says(warnings.front(), {"not enough memory left for a copy"}));
}

TEST(BackgroundCheckpoints, AnErrorOfTheWritingEndsTheTraining) {
  const TemporaryFolder folder;
  folder.write("checkpoints", "a file in the place of the folder");
  for (const bool asynchronous : {true, false}) {
    CheckpointStore store({folder / "checkpoints"});
    SmallTraining training(Communicator::solo(), {});
    CheckpointObserver observer(training.trainer(), &store,
                                {.every_steps = 1, .asynchronous = asynchronous});
    training.trainer().add_observer(observer);
    EXPECT_TRUE(says(message_of<Error>([&] { (void)training.trainer().run(); }),
                     {"cannot make the folder"}));
    EXPECT_LT(training.trainer().state().step, 26);
  }
}

}  // namespace
}  // namespace kolo::testing
