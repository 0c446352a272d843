// kolo train, end to end through the binary, with the courses' own options, too.
#include <nlohmann/json.hpp>

#include "cli/small_runs.h"
#include "support/needs_mpi.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class TrainProgram : public SmallRuns {
 protected:
  TrainProgram()
      : SmallRuns(
            "optimizer: {name: adam, lr: 0.002, lr_scaling: sqrt}\n"
            "training: {batch_size: 16, n_epochs: 2, lr_warmup_epochs: 1}\n") {}

  // The program itself, not a fork of this process.
  [[nodiscard]] ProcessResult start(const std::vector<std::string>& words) const {
    return start_kolo(joined(joined({"train", config}, words), {"--output", folder / "run"}));
  }
};

TEST_F(TrainProgram, TwoRanksTrainAndLeaveEverythingBehind) {
  const auto result = train({"-n", "2", "training.n_epochs=4", "training.log_every=5"});
  ASSERT_TRUE(succeeds(result, {"2 ranks on 1 node"}));
  EXPECT_TRUE(
      says(result.output, {"best validation accuracy", "results in " + (folder / "run").string()}));
  for (const char* name : {"config.yaml", "out.log", "history.json", "checkpoints"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / "run" / name)) << name;
  }
  const auto record = history();
  EXPECT_EQ(record.n_ranks(), 2);
  ASSERT_EQ(record.epochs().size(), 5U);
  EXPECT_EQ(record.epochs()[1].step, 13) << "400 samples, 2 ranks, batches of 16";
  EXPECT_EQ(record.steps().size(), 10U);
  EXPECT_LT(record.epochs()[4].val_loss, record.epochs()[0].val_loss);
  EXPECT_NEAR(record.epochs()[1].lr, .002 * std::sqrt(2.), 1e-9)
      << "reached in the last step of the warm-up";
  EXPECT_NEAR(record.epochs()[4].lr, .002 * std::sqrt(2.), 1e-9);
  EXPECT_EQ(newest().step, 52);
}

TEST_F(TrainProgram, NotesEveryStartWithCommandVersionAndHost) {
  ASSERT_EQ(start({"-n", "2", "training.n_epochs=1", "description=two words"}).exit_code, 0);
  ASSERT_EQ(start({"--resume", "training.n_epochs=2"}).exit_code, 0);
  const auto starts = nlohmann::json::parse(read_text_file(folder / "run/run.json"))["starts"];
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0]["command"], "kolo train " + config +
                                      " -n 2 training.n_epochs=1 'description=two words' "
                                      "--output " +
                                      (folder / "run").string());
  EXPECT_TRUE(says(starts[1]["command"].get<std::string>(), {"--resume"}));
  for (const char* const key : {"version", "host", "machine", "directory", "time"})
    EXPECT_NE(starts[1][key], "") << key;
  EXPECT_TRUE(starts[0].contains("commit")) << "empty where the directory is no repository";
  EXPECT_TRUE(says(read_text_file(folder / "run/out.log"), {"training.n_epochs=1"}));
}

TEST_F(TrainProgram, MaxStepsEndTheRunInMidEpochAndItGoesOnAfterThem) {
  ASSERT_TRUE(
      succeeds(train({"training.max_steps=30", "training.n_epochs=4"}), {"1 rank on 1 node"}));
  const auto record = history();
  ASSERT_EQ(record.epochs().size(), 3U) << "untrained, one of 25 steps, one of 5";
  EXPECT_EQ(record.epochs()[2].step, 30);
  EXPECT_GT(record.epochs()[2].val_loss, 0);
  EXPECT_EQ(newest().step, 30);
  ASSERT_EQ(train({"training.max_steps=40", "training.n_epochs=4", "--resume"}).exit_code, 0);
  EXPECT_EQ(newest().step, 40);
}

TEST_F(TrainProgram, JoinsAnMpirunOfTheUser) {
  KOLO_NEEDS_MPI();
  ASSERT_TRUE(succeeds(run_process(
      {MPIRUN_SCRIPT, "2", KOLO_PROGRAM, "train", config, "--output", (folder / "run").string()},
      {.deadline = std::chrono::seconds(120)})));
  EXPECT_EQ(history().n_ranks(), 2);
}

TEST_F(TrainProgram, AnEarlierRunIsMovedAsideNotOverwritten) {
  ASSERT_EQ(train({"training.n_epochs=1", "training.log_every=0"}).exit_code, 0);
  // One that ends long before its epochs.
  const auto second = train({"training.max_steps=3", "training.n_epochs=1000"});
  EXPECT_TRUE(
      says(second.output, {"held an earlier run; it is now " + (folder / "run.1").string()}));
  EXPECT_EQ(history("run.1").epochs().size(), 2U);
  EXPECT_TRUE(history("run.1").steps().empty()) << "none were wanted";
  EXPECT_EQ(history().steps().size(), 3U);
}

TEST(RankGuard, AnyRankThatThrowsEndsTheJobAndItsMessageIsShownOnce) {
  KOLO_NEEDS_MPI();
  const auto result =
      run_job({MPIRUN_SCRIPT, "3", FAILING_RANK_PROGRAM}, {.deadline = std::chrono::seconds(30)});
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  const std::string words = "kolo: rank 1 (on ";
  const auto first = result.errors.find(words);
  ASSERT_NE(first, std::string::npos) << result.errors;
  EXPECT_TRUE(says(result.errors, {"): broken on purpose"}));
  EXPECT_EQ(result.errors.find("kolo: rank", first + 1), std::string::npos) << result.errors;
}

TEST_F(TrainProgram, ShowsTheConfigurationAndWritesNothing) {
  EXPECT_TRUE(succeeds(train({"--show-config", "optimizer.lr=0.5"}), {"lr: 0.5"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

class TutorialOptions : public SmallRuns {
 protected:
  [[nodiscard]] std::string shown(const std::vector<std::string>& options) const {
    const auto run = run_kolo(joined({"train", config, "--show-config"}, options));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return run.output;
  }
};

TEST_F(TutorialOptions, StandForSettings) {
  EXPECT_TRUE(says(shown({"--bucket_cap_mb", "7.5"}), {"bucket_mb: 7.5\n"}));
  EXPECT_TRUE(says(shown({"--amp_mode", "bf16"}), {"precision: bf16\n"}));
  EXPECT_TRUE(says(shown({"--amp_mode", "none"}), {"precision: fp32\n"}));
  EXPECT_TRUE(says(shown({"--enable_amp"}), {"precision: bf16\n"}));
  EXPECT_TRUE(says(shown({"--optimizer", "name=SGD,lr=0.25,lr_scaling=sqrt,lr_warmup_epochs=5"}),
                   {"name: sgd\n", "lr: 0.25\n", "lr_scaling: sqrt\n", "lr_warmup_epochs: 5\n"}));
  const std::string box =
      "data={name: nbody, train_path: a, valid_path: b, n_train: 1, n_valid: 1}";
  const std::vector<std::string> fields = {"model.name=unet3d", "training.loss=l1", box};
  for (const auto& [given, mode] :
       {std::pair("inmem", "inmem"), std::pair("dali-lowmem", "lowmem")})
    EXPECT_TRUE(says(shown(joined(fields, {"--data_loader_config", given})),
                     {std::string("mode: ") + mode + "\n"}));
}

TEST_F(TutorialOptions, MoreThreadsThanProcessorsAreCut) {
  ASSERT_TRUE(succeeds(run_kolo({"train", config, "--output", folder / "run", "training.n_epochs=1",
                                 "device.intra_threads=1024"}),
                       {"device.intra_threads: 1024 are more threads than there are"}));
}

}  // namespace
}  // namespace kolo::testing
