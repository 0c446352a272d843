// Jobs of three ranks under mpirun that need MPI, or several nodes, of which the last rank has one
// of its own. Other jobs are tested without MPI: ending_jobs_test.cpp, starting_jobs_test.cpp and
// watch_jobs_test.cpp.
#include <csignal>
#include <string>

#include <gmock/gmock.h>

#include "comm/jobs.h"
#include "support/expect_end.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

// kolo finalizes at exit() the MPI that it has initialized.
TEST(EndingTogetherUnderMpi, IsDoneWithoutAWord) {
  const auto result = run_ending({"kolo", "static", "exits", "mpi"});
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_FALSE(says(result.errors, {"kolo"}));
}

TEST(EndingBeforeTheOthersUnderMpi, IsSaidAndEndsTheJob) {
  for (const Ending& ending : {Ending{"kolo", "main", "caught", "nodes"},
                               Ending{"program", "static", "finalize", "mpi"}}) {
    SCOPED_TRACE(ending.way);
    const auto result = run_ending(ending);
    EXPECT_NE(result.exit_code, 0);
    expect_early_end(result);
  }
}

TEST(StoppedRankUnderMpi, OfAnotherNodeIsNamedAndTheJobEndsAfterTheLimit) {
  const TemporaryFolder folder;
  const auto result = run_stalling({"all-reduce", "2", std::to_string(SIGSTOP), "nodes"},
                                   watched(folder.path().string(), "1", "3"));
  expect_end(result, ::testing::Ne(0));
  EXPECT_TRUE(says(result.errors, {"kolo: watch: ranks have waited", "\"sums\"", "the limit"}));
  EXPECT_THAT(result.errors, names_as_missing(2));
}

TEST(LateRankUnderMpi, IsWaitedForWithAWord) {
  expect_that_a_late_rank_is_waited_for("program");
}

}  // namespace
}  // namespace kolo::testing
