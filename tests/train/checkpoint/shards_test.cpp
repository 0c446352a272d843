
#include <algorithm>
#include <barrier>
#include <functional>
#include <random>
#include <thread>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

TEST(Shards, AreAsManyAsBytesAndRanksAllow) {
  EXPECT_EQ(choose_shards(0, 4), 1);
  EXPECT_EQ(choose_shards(bytes_of_a_shard, 4), 1);
  EXPECT_EQ(choose_shards(3 * bytes_of_a_shard, 4), 3);
  EXPECT_EQ(choose_shards(30 * bytes_of_a_shard, 4), 4);
}

TEST(Shards, BalanceByBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::uint64_t> bytes(40 + random() % 60);
    for (auto& each : bytes) each = random() % 10'000;
    const int shards = 1 + static_cast<int>(random() % 6);
    const std::uint64_t first = random() % 5'000;
    const auto plan = plan_shards(bytes, shards, first);
    ASSERT_EQ(plan.size(), bytes.size());
    std::vector<std::uint64_t> load(static_cast<std::size_t>(shards), 0);
    load.front() = first;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      load.at(static_cast<std::size_t>(plan[i])) += bytes[i];
    // The largest first: no shard is further above the others than one tensor.
    const auto [least, most] = std::ranges::minmax(load);
    EXPECT_LE(most - least, 10'000U) << "round " << round;
  }
}

std::vector<NamedTensor> random_tensors(int count, const std::string& prefix) {
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < count; ++i)
    tensors.push_back({prefix + std::to_string(i), torch::rand({3 + i, 5})});
  return tensors;
}

// The tensors of one of several writers.
Checkpoint part_of(const Checkpoint& whole, std::size_t writer, std::size_t writers) {
  Checkpoint part;
  part.state = whole.state;
  const auto keep = [&](const std::vector<NamedTensor>& from, std::vector<NamedTensor>& into) {
    for (std::size_t i = writer; i < from.size(); i += writers) into.push_back(from[i]);
  };
  keep(whole.model, part.model);
  keep(whole.optimizer, part.optimizer);
  return part;
}

void expect_same(const std::vector<NamedTensor>& saved, const std::vector<NamedTensor>& wanted) {
  ASSERT_EQ(saved.size(), wanted.size());
  for (const auto& item : wanted)
    EXPECT_TRUE(saved_tensor(saved, item.name, item.tensor.sizes()).equal(item.tensor));
}

class ShardedCheckpoint : public ::testing::Test {
 protected:
  ShardedCheckpoint() {
    whole_.model = random_tensors(11, "layer");
    whole_.optimizer = random_tensors(5, "layer.momentum");
    whole_.state = {{"epoch", 2}};
  }
  // With writers as threads. `change`: what a writer does to its part before. What each throws, or
  // nothing.
  std::vector<std::string> save(
      std::int64_t step, std::size_t writers,
      const std::function<void(std::size_t, Checkpoint&)>& change = [](auto, auto&) {}) {
    std::barrier<> barrier(static_cast<std::ptrdiff_t>(writers));
    std::vector<std::string> notes(writers), errors(writers);
    const auto write = [&](std::size_t writer) {
      auto part = part_of(whole_, writer, writers);
      change(writer, part);
      const auto exchange = [&](const std::string& note) {
        notes[writer] = note;
        barrier.arrive_and_wait();
        auto all = notes;
        barrier.arrive_and_wait();
        return all;
      };
      try {
        (void)CheckpointStore({folder_}).save(
            step, part, false, {static_cast<int>(writer), static_cast<int>(writers), exchange});
      } catch (const Error& error) {
        errors[writer] = error.what();
      }
    };
    std::vector<std::jthread> threads;
    for (std::size_t writer = 0; writer < writers; ++writer) threads.emplace_back(write, writer);
    threads.clear();
    return errors;
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_ / "checkpoints";
  Checkpoint whole_;
};

TEST_F(ShardedCheckpoint, ComesBackWholeWhateverTheNumberOfWriters) {
  for (const int writers : {2, 3, 16}) {
    for (const auto& error : save(writers, static_cast<std::size_t>(writers))) EXPECT_EQ(error, "");
    for (const auto reading : {CheckpointReading::whole, CheckpointReading::checked}) {
      const auto loaded = CheckpointStore({folder_}).load_newest(
          [](const std::string& warning) { ADD_FAILURE() << warning; }, reading);
      ASSERT_TRUE(loaded);
      EXPECT_EQ(loaded->step, writers);
      EXPECT_EQ(loaded->content.state.at("epoch"), 2);
      EXPECT_EQ(loaded->content.model.size(), whole_.model.size());
      if (reading != CheckpointReading::whole) continue;
      expect_same(loaded->content.model, whole_.model);
      expect_same(loaded->content.optimizer, whole_.optimizer);
    }
  }
}

TEST_F(ShardedCheckpoint, ADamagedShardIsNamed) {
  (void)save(1, 2);
  (void)save(2, 3);
  const auto file = folder_ / "step-00000002" / "optimizer-00002-of-00003.safetensors";
  auto text = read_text_file(file);
  text.back() = static_cast<char>(text.back() ^ 1);
  write_file_atomically(file, text);
  std::string warnings;
  const auto warn = [&](const std::string& warning) { warnings += warning; };
  EXPECT_EQ(CheckpointStore({folder_}).load_newest(warn)->step, 1);
  EXPECT_TRUE(says(warnings, {"optimizer-00002-of-00003.safetensors is damaged"}));
  std::filesystem::remove(file);
  EXPECT_TRUE(
      says(message_of<Error>([&] { (void)CheckpointStore::load(folder_ / "step-00000002"); }),
           {"optimizer-00002-of-00003.safetensors is missing"}));
}

TEST_F(ShardedCheckpoint, AWriterThatFailsLeavesNoCheckpointAndAllKnow) {
  (void)save(1, 3);
  const auto errors = save(2, 3, [](std::size_t writer, Checkpoint& part) {
    if (writer == 1) part.model.push_back({"", torch::ones({1})});  // which no file takes
  });
  EXPECT_TRUE(says(errors[1], {"a tensor has no name"}));
  for (const std::size_t other : {0, 2})
    EXPECT_TRUE(says(errors[other], {"shard 2 of 3 is not written", "has no name"}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "step-00000002"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / ".step-00000002.part"));
  EXPECT_EQ(CheckpointStore({folder_}).list().size(), 1U);
}

TEST_F(ShardedCheckpoint, IsReplacedAndRemovedLikeOthers) {
  (void)save(5, 3);
  CheckpointStore store({folder_, 1});
  (void)store.save(5, whole_, false);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "step-00000005" / "model.safetensors"));
  (void)save(6, 2);
  (void)store.save(7, whole_, false);
  EXPECT_EQ(store.folders(), std::vector{folder_ / "step-00000007"});
}

}  // namespace
}  // namespace kolo::testing
