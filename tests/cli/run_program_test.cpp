// kolo run, for real: small shell programs on two ranks.
#include "cli/run_program.h"
#include <fmt/format.h>
#include "kolo/base/file.h"
#include "support/needs_mpi.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::ContainsRegex;

class RunProgramByMpi : public RunProgram {
 protected:
  void SetUp() override {
    KOLO_NEEDS_MPI();
    launcher_ = "mpi";
  }
};

TEST_F(RunProgramByMpi, TagsEveryLineWithItsRank) {
  const auto result = run({}, "echo here; echo there >&2");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(says(result.output, {"[0] here\n", "[1] here\n"}));
  EXPECT_TRUE(says(result.errors, {"[0] there\n", "[1] there\n"}));
}

TEST_F(RunProgramByMpi, EndsWithTheFailedRanksStatus) {
  const auto result = run({}, "[ $RANK = 1 ] && exit 7; sleep 20");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_THAT(result.errors, ContainsRegex("kolo run: rank 1 \\(on .*\\): .*/program ended with "
                                           "status 7\n"));
  EXPECT_FALSE(says(result.errors, {"rank 0"})) << "it was ended because of the other";
}

TEST_F(RunProgramByMpi, AKilledRankIsAReasonToStartAgain) {
  const auto result =
      run({"--max-restarts", "1"},
          "[ $RANK$KOLO_RESTART = 10 ] && kill -9 $$; [ $KOLO_RESTART = 1 ] || sleep 20");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(says(result.errors, {"the job ended with status 137 (Killed); starting it again"}));
  EXPECT_EQ(result.left_behind, 0);
}

TEST_F(RunProgram, WhatCannotBeFoundIsWrongInput) {
  const auto result = run_kolo({"run", "-n", "2", "--oversubscribe", "/nowhere/to/be/found"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(says(result.errors, {"/nowhere/to/be/found"}));
  EXPECT_EQ(result.output, "");
}

TEST_F(RunProgram, AFailedJobIsStartedAgainAndEachRestartHasLogsOfItsOwn) {
  const auto logs = folder_.path() / "logs";
  const auto result = run({"--max-restarts", "2", "--logs", logs},
                          meet() +
                              "echo rank $RANK attempt $KOLO_RESTART; meet $KOLO_RESTART; "
                              "[ $KOLO_RESTART = 2 ]");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "");
  EXPECT_TRUE(says(result.errors, {"starting it again (restart 2 of 2): 2 ranks"}));
  for (const int rank : {0, 1}) {
    for (const int restart : {0, 1, 2}) {
      const auto name = fmt::format("rank-000{}{}.log", rank,
                                    restart == 0 ? "" : fmt::format(".restart-{}", restart));
      EXPECT_EQ(read_text_file(logs / name), fmt::format("rank {} attempt {}\n", rank, restart));
    }
  }
}

TEST_F(RunProgram, EndsWithTheLastStatusWhenTheRestartsAreUsedUp) {
  const auto result =
      run({"--max-restarts", "1"},
          meet() + "[ $RANK = 0 ] && echo attempt; meet $KOLO_RESTART; sleep .2; exit 3");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "[0] attempt\n[0] attempt\n");
  EXPECT_TRUE(
      says(result.errors, {"kolo: the job ended with status 3; starting it again (restart 1 of "
                           "1): 2 ranks\n",
                           "kolo: the job ended with status 3; it was restarted 1 time within "
                           "an hour, and is not again\n"}));
  EXPECT_EQ(result.left_behind, 0);
}

TEST_F(RunProgram, DoesNotStartAgainWhatEndsOnPurpose) {
  for (const int status : {0, 2, 75}) {
    const auto text = meet() + fmt::format("[ $RANK = 0 ] && echo once; meet {}; sleep .2; exit {}",
                                           status, status);
    const auto result = run({"--max-restarts", "2"}, text);
    EXPECT_EQ(result.exit_code, status);
    EXPECT_EQ(result.output, "[0] once\n");
  }
}

TEST_F(RunProgram, AKilledRankLeavesNothingBehind) {
  const auto result =
      run({}, "[ $RANK = 1 ] && kill -9 $$; trap '' TERM; sleep 20; sleep 20; sleep 20");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.left_behind, 0);
}

}  // namespace
}  // namespace kolo::testing
