// Checkpoints of kolo train that are written in the background, and by several ranks.
#include <random>
#include <thread>

#include "cli/small_runs.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "support/needs_mpi.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class CheckpointProgram : public SmallRuns {
 protected:
  void expect_same_checkpoints(const std::string& whole, const std::string& other) const {
    const auto a = newest(whole), b = newest(other);
    EXPECT_EQ(a.step, b.step);
    const auto compare = [](const auto& wanted, const auto& found) {
      ASSERT_EQ(wanted.size(), found.size());
      for (const auto& item : wanted) {
        EXPECT_TRUE(saved_tensor(found, item.name, item.tensor.sizes()).equal(item.tensor))
            << item.name;
      }
    };
    compare(a.content.model, b.content.model);
    compare(a.content.optimizer, b.content.optimizer);
  }
  // A network whose checkpoints take longer to write than steps take.
  [[nodiscard]] std::string write_large_config() const {
    return folder.write("large.yaml", "data: {name: mnist, path: " + data().string() +
                                          "}\n"
                                          "model: {name: mlp, hidden: [600, 100]}\n"
                                          "optimizer: {name: adam, lr: 0.002}\n"
                                          "training: {batch_size: 16, n_epochs: 2, log_every: 1}\n"
                                          "checkpoint: {keep: 3, every_steps: 1}\n");
  }
};

TEST_F(CheckpointProgram, HowTheyAreWrittenChangesNothing) {
  const auto train_with = [&](const std::string& setting, const std::string& output) {
    have_run({"-n", "2", "training.n_epochs=2", "checkpoint.every_steps=3", setting}, output);
  };
  train_with("checkpoint.asynchronous=false", "whole");
  train_with("checkpoint.shards=1", "background");
  train_with("checkpoint.shards=2", "shards");
  for (const auto* output : {"background", "shards"}) {
    expect_same_records("whole", output);
    expect_same_checkpoints("whole", output);
    EXPECT_EQ(store(output).list().size(), store("whole").list().size());
    EXPECT_EQ(store(output).best()->step, store("whole").best()->step);
    const auto saved = history(output);
    for (const auto& record : saved.checkpoints()) {
      EXPECT_GT(record.stall_seconds, 0);
      EXPECT_GE(record.stall_seconds, record.waited_seconds);
      EXPECT_GT(record.seconds, 0);
    }
    EXPECT_EQ(saved.checkpoints().back().step, 26);
  }
  const auto shard = checkpoint(26, "shards").parent_path() / "model-00002-of-00002.safetensors";
  EXPECT_EQ(run_kolo({"data", "inspect", shard}).exit_code, 0);
  EXPECT_TRUE(succeeds(run_kolo({"eval", folder / "shards"}), {"accuracy"}));
}

TEST_F(CheckpointProgram, AnyNumberOfRanksGoesOnFromAnyNumberOfShards) {
  for (const auto& [shards, run] : {std::pair("1", "whole"), std::pair("2", "run")})
    have_run({"-n", "2", "training.n_epochs=2", "checkpoint.every_steps=3",
              std::string("checkpoint.shards=") + shards},
             run);
  for (const auto* run : {"whole", "run"}) {
    EXPECT_TRUE(succeeds(train(
        {"-n", "3", "--oversubscribe", "--resume", "training.n_epochs=3", "checkpoint.shards=3"},
        run)));
  }
  expect_same_checkpoints("whole", "run");
}

// Launcher and ranks together, at moments that fall anywhere in a step or in the writing.
TEST_F(CheckpointProgram, KillsAmidTheWritingLoseNothing) {
  const auto large = write_large_config();
  const auto words_for = [&](const std::string& output, bool resumes) {
    const std::vector<std::string> words = {"train",
                                            large,
                                            "--output",
                                            folder / output,
                                            "-n",
                                            "2",
                                            "device.intra_threads=1",
                                            "checkpoint.shards=2"};
    return resumes ? joined(words, {"--resume"}) : words;
  };
  ASSERT_EQ(run_kolo(words_for("whole", false)).exit_code, 0);
  std::mt19937 random(3);
  int kills = 0;
  for (int step = 1; step <= 24 && kills < 5; step = static_cast<int>(newest().step) + 2) {
    std::jthread killer([&] {
      if (!wait_for_checkpoint(step)) return;
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
      signal_processes_with_argument(folder / "run", SIGKILL);
    });
    const auto result = start_kolo(words_for("run", step > 1));
    if (result.exit_code == 0) break;
    ++kills;
  }
  EXPECT_GE(kills, 2);
  folder.write("run/history.json.1234.part", "what a killed run was writing");
  ASSERT_TRUE(succeeds(run_kolo(words_for("run", true))));
  EXPECT_FALSE(std::filesystem::exists(folder / "run/history.json.1234.part"));
  expect_same_records("whole", "run");
  expect_same_events("whole", "run");
  expect_same_checkpoints("whole", "run");
  for (const auto& entry : std::filesystem::directory_iterator(folder / "run" / "checkpoints"))
    EXPECT_FALSE(says(entry.path().filename().string(), {".part"}));
}

// Files that can't grow are a full disk, for root as well.
TEST_F(CheckpointProgram, AFullDiskEndsTheRunWithTheCheckpointsThatWere) {
  const auto large = write_large_config();
  for (const auto* asynchronous : {"true", "false"}) {
    const auto output = std::string("full-") + asynchronous;
    const auto result =
        run_process({"sh", "-c", "trap '' XFSZ; ulimit -f 1000; exec \"$@\"", "sh", KOLO_PROGRAM,
                     "train", large, "--output", folder / output, "checkpoint.every_steps=5",
                     std::string("checkpoint.asynchronous=") + asynchronous});
    EXPECT_TRUE(ends_with(
        result, 1, {"model.safetensors", "too large", "larger than 512000 bytes (ulimit -f)"}))
        << result.errors;
    EXPECT_FALSE(std::filesystem::exists(checkpoint(5, output)));
    EXPECT_TRUE(store(output).list().empty());
  }
}

// MPI's own files of shared memory come under the limit, too: it would end the job without a word
// of that, or hang.
TEST_F(CheckpointProgram, ALimitThatLeavesRanksNoSharedMemoryIsRefusedBeforeAnythingStarts) {
  KOLO_NEEDS_MPI();
  const auto limited = [&](const std::vector<std::string>& words) {
    const auto result =
        run_job(joined({"sh", "-c", "ulimit -f 100; exec \"$@\"", "sh"}, words), kolo_options({}));
    EXPECT_FALSE(result.timed_out);
    EXPECT_TRUE(is_refused(result, {"larger than 51200 bytes (ulimit -f)", "ulimit -f unlimited"}));
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  };
  const std::vector<std::string> training = {KOLO_PROGRAM, "train", config, "-o", folder / "run"};
  limited(joined(training, {"-n", "2", "--oversubscribe"}));
  limited(joined({MPIRUN_SCRIPT, "2"}, training));
}

TEST_F(CheckpointProgram, AStopWaitsUntilItsCheckpointIsThere) {
  const auto large = write_large_config();
  const auto stopped = run_kolo_and({"train", large, "--output", folder / "run",
                                     "training.n_epochs=400", "checkpoint.every_steps=7"},
                                    [&](pid_t kolo) {
                                      if (wait_for_checkpoint(7)) ::kill(kolo, SIGTERM);
                                    });
  ASSERT_EQ(stopped.exit_code, 75) << stopped.errors;
  const auto said = fmt::format("at step {};", newest().step);
  EXPECT_TRUE(says(stopped.output + stopped.errors, {said}));
}

}  // namespace
}  // namespace kolo::testing
