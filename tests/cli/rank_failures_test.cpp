// Ranks that are not given the same: a node that lacks the data, another file, another
// configuration. Whatever fails on one of them ends all, and is said once, with rank and host.
#include <gmock/gmock.h>

#include "cli/program.h"
#include "kolo/base/machine.h"
#include "support/idx_files.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class RankFailures : public ::testing::Test {
 protected:
  RankFailures() {
    for (const std::string name : {"0", "1", "same"}) write_small_mnist(folder / name, 40, 20);
    write_config("same.yaml", "16");
  }

  void write_config(const std::string& name, const std::string& batch_size) const {
    folder.write(name, "data: {name: mnist, path: " + (folder / "same").string() +
                           "}\nmodel: {name: mnist_net}\noptimizer: {name: sgd}\n"
                           "training: {batch_size: " +
                           batch_size + "}\n");
  }

  // Ranks of `kolo COMMAND FILE REST...`, as a shell has it in which $RANK is the rank, in a
  // folder.
  [[nodiscard]] ProcessResult run(const std::string& command, const std::string& file,
                                  const std::string& rest, const std::string& where = "") const {
    const auto place = folder.path().string() + "/" + where;
    return job("2", {"sh", "-c",
                     "RANK=$KOLO_PROCESS_RANK; cd " + place + "; exec " + KOLO_PROGRAM + " " +
                         command + " " + file + " " + rest});
  }
  // For kolo it is a launcher like any other.
  [[nodiscard]] static ProcessResult job(const std::string& ranks,
                                         std::vector<std::string> program) {
    program.insert(program.begin(),
                   {"run", "-n", ranks, "--oversubscribe", "--launcher", "processes"});
    return run_kolo(program, {}, std::chrono::seconds(60));
  }

  // Once, from the first "kolo: " on.
  static void expect_said_once(const ProcessResult& result, const std::string& words, int status) {
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit_code, status) << result.errors;
    const auto first = result.errors.find("kolo: ");
    ASSERT_NE(first, std::string::npos) << result.errors;
    EXPECT_EQ(result.errors.find("kolo: ", first + 1), std::string::npos) << result.errors;
    EXPECT_TRUE(says(result.errors, {words}));
  }

  [[nodiscard]] static std::string rank(int number) {
    return "rank " + std::to_string(number) + " (on " + host_name() + ")";
  }

  TemporaryFolder folder;
};

TEST_F(RankFailures, DataThatOneNodeLacks) {
  std::filesystem::remove_all(folder / "1");
  ASSERT_EQ(run_kolo({"train", folder / "same.yaml", "-o", folder / "run"}).exit_code, 0);
  for (const auto& [command, what] :
       {std::pair("train", "same.yaml"), std::pair("bench", "same.yaml"), std::pair("eval", "run")})
    expect_said_once(run(command, what, "data.path=$RANK"),
                     rank(1) + ": command line: data.path: data: no file", 2);
  std::filesystem::remove_all(folder / "0");
  write_small_mnist(folder / "1", 40, 20);
  expect_said_once(run("train", "same.yaml", "data.path=$RANK"),
                   rank(0) + ": command line: data.path: data: no file", 2);
  EXPECT_FALSE(std::filesystem::exists(folder / "results"));
}

TEST_F(RankFailures, WhatRanksAreNotGivenAlikeIsNamedWithThem) {
  for (const auto& [name, batch] :
       {std::pair("one-0.yaml", "16"), {"0.yaml", "16"}, {"1.yaml", "8"}})
    write_config(name, batch);
  const std::string same = "same.yaml";
  const struct {
    std::string file, rest, said;
  } cases[] = {
      {"one-$RANK.yaml", "-o run",
       rank(1) +
           ": cannot read the configuration: one-1.yaml does not exist in the current folder, "},
      {"$RANK.yaml", "-o run",
       "training.batch_size is 16 for " + rank(0) + ", but 8 for " + rank(1)},
      {same, "-o run $([ $RANK = 0 ] || echo --lrr 3)", rank(1) + ": "},
      // Rank 0 alone writes there, so that it alone looks; but all must have been given the same.
      {same, "-o $([ $RANK = 1 ] && echo run || echo /proc/run)",
       rank(0) + ": output folder /proc/run"},
      {same, "-o $([ $RANK = 0 ] && echo run || echo /proc/run)",
       "output_dir is run for " + rank(0) + ", but /proc/run for " + rank(1)},
      {same, "-o run $([ $RANK = 0 ] || echo --resume)",
       "whether it goes on from a checkpoint is no for " + rank(0) + ", but yes for " + rank(1)},
      // All say it alike, and none is named.
      {same, "data.path=nowhere", "kolo: command line: data.path: data: no file"}};
  for (const auto& [file, rest, said] : cases) expect_said_once(run("train", file, rest), said, 2);
}

// And what there is to go on with: nodes need not see one another's files.
TEST_F(RankFailures, ACheckpointThatRank0AloneCanRead) {
  ASSERT_TRUE(succeeds(run_kolo(
      {"train", folder / "same.yaml", "-o", folder / "0" / "run", "training.n_epochs=1"})));
  const auto resume = "-o run --resume training.n_epochs=";
  EXPECT_TRUE(succeeds(run("train", "../same.yaml", resume + std::string("2"), "$RANK"),
                       {"resuming from run/checkpoints/step-"}));
  EXPECT_TRUE(succeeds(run("train", "../same.yaml", resume + std::string("2"), "$RANK"),
                       {"holds a finished run: 2 epochs"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "1" / "run"));
  expect_said_once(
      run("train", "../same.yaml", "-o run --resume best optimizer.name=adam", "$RANK"),
      rank(0) + ": resume: the checkpoint's optimizer is ", 2);
}

TEST_F(RankFailures, DataOfAnotherLength) {
  write_small_mnist(folder / "1", 39, 20);
  const auto result = run("train", "same.yaml", "data.path=$RANK");
  expect_said_once(
      result, "the number of training samples is 40 for " + rank(0) + ", but 39 for " + rank(1), 2);
  EXPECT_FALSE(std::filesystem::exists(folder / "results"));
}

// Ranks 1 and 2 fail; the lower one has a head start, which a busy machine may use up.
TEST_F(RankFailures, WhereAnotherRankIsStillPreparingOneSaysIt) {
  const auto result = job("3", {FAILING_RANK_PROGRAM, "preparing"});
  expect_said_once(result, ": missing for rank ", 2);
  EXPECT_TRUE(says(result.errors, {rank(1) + ": missing for rank 1"}) ||
              says(result.errors, {rank(2) + ": missing for rank 2"}))
      << result.errors;
  // The other one knows why its group is broken, and ends with its own status.
  EXPECT_FALSE(says(result.errors, {"terminate called"})) << result.errors;
}

// Classes named in Latin 1, which is no UTF-8: the bytes are shown as they are.
TEST_F(RankFailures, NamesThatDifferInBytesOfAnotherEncoding) {
  ASSERT_TRUE(succeeds(run_kolo({"data", "images", "--from", "fashion-mnist", "-o",
                                 folder / "0" / "images", "--per-class", "1"})));
  std::filesystem::copy(folder / "0" / "images", folder / "1" / "images",
                        std::filesystem::copy_options::recursive);
  for (const auto& [rank, name] : {std::pair("0", "caf\xe8"), std::pair("1", "caf\xe9")}) {
    for (const char* part : {"train", "valid"}) {
      const auto place = folder / rank / "images" / part;
      std::filesystem::rename(place / "9_ankle_boot", place / name);
    }
  }
  folder.write("images.yaml",
               "data: {name: imagenet, input_shape: [3, 32, 32]}\nmodel: {name: cnn}\n"
               "optimizer: {name: sgd}\ntraining: {batch_size: 4}\n");
  const auto result = run("train", "images.yaml",
                          "data.train_dir=$RANK/images/train data.valid_dir=$RANK/images/valid");
  expect_said_once(result, "the classes' names is ", 2);
  EXPECT_TRUE(says(result.errors, {"caf\xe8 for rank 0", "caf\xe9 for rank 1"}));
}

TEST_F(RankFailures, PlacesOfDataMayDiffer) {
  EXPECT_EQ(run("train", "same.yaml", "data.path=$RANK -o run").exit_code, 0);
}

}  // namespace
}  // namespace kolo::testing
