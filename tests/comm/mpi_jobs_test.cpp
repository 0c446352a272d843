// Jobs of three ranks under mpirun: what is about MPI itself, its launcher, or several nodes, of
// which the last rank has one of its own. Everything else of jobs is tested without MPI, in
// ending_jobs_test.cpp, starting_jobs_test.cpp and watch_jobs_test.cpp.
#include <csignal>
#include <iterator>
#include <regex>
#include <string>

#include <gmock/gmock.h>

#include "comm/jobs.h"
#include "kolo/base/file.h"
#include "support/process.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class EndingTogether : public ::testing::TestWithParam<Ending> {};

TEST_P(EndingTogether, IsDoneWithoutAWord) {
  const auto result = run_ending(GetParam());
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_FALSE(says(result.errors, {"kolo"}));
}

INSTANTIATE_TEST_SUITE_P(UnderMpi, EndingTogether,
                         ::testing::Values(Ending{"program", "main", "together", ""},
                                           Ending{"kolo", "static", "exits", "mpi"},
                                           Ending{"kolo", "inner", "forked", "nodes"}),
                         name_of_ending);

class EndingBeforeTheOthers : public ::testing::TestWithParam<Ending> {};

TEST_P(EndingBeforeTheOthers, IsSaidAndEndsTheJob) {
  const auto result = run_ending(GetParam());
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_THAT(result.errors, AnyOf(HasSubstr("can't be completed, because rank 1 "),
                                   HasSubstr("watch: rank 1 has left")))
      << result.errors;
}

INSTANTIATE_TEST_SUITE_P(UnderMpi, EndingBeforeTheOthers,
                         ::testing::Values(Ending{"kolo", "main", "caught", "nodes"},
                                           Ending{"program", "main", "caught", "mpiT"},
                                           Ending{"program", "static", "finalize", "mpi"},
                                           Ending{"program", "inner", "release", "nodes"}),
                         name_of_ending);

// Without MPI_Finalize the launcher may see it first.
TEST(EndingInsideACollective, IsSaidAndEndsTheJobUnderMpi) {
  const auto result = run_ending({"kolo", "main", "hooked", ""});
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_TRUE(says(result.errors, {"rank 1: the program ends with status 0, but exit() was called "
                                   "inside a collective"}));
}

TEST(FinalisedMpi, IsAnErrorToWhoeverCallsACollective) {
  const auto result = run_ending({"program", "static", "afterwards", ""});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(says(result.errors, {"learnt: comm: MPI has been finalized"}));
}

// The launcher's own status tells nothing of it: Open MPI's would end the others first, and with
// this setting it ends with 0. So a shell around each rank does.
TEST(KilledRankUnderMpi, EndsTheOtherOfItsNode) {
  const TemporaryFolder folder;
  auto options = watched(folder.path().string(), "1", "0");
  options.environment["OMPI_MCA_orte_enable_recovery"] = "1";
  const auto result = run_on_ranks(
      3, {"sh", "-c", "\"$0\" all-reduce 1 9 nodes; echo status $?.", STALLING_JOB}, options);
  EXPECT_FALSE(result.timed_out) << result.errors;
  EXPECT_EQ(result.left_behind, 0);
  const auto count = [&](const std::string& text) {
    const std::regex word(text);
    return std::distance(std::sregex_iterator(result.output.begin(), result.output.end(), word),
                         std::sregex_iterator());
  };
  EXPECT_EQ(count("status 0\\."), 0) << result.output;
  EXPECT_THAT(result.output + result.errors, AnyOf(HasSubstr("status 137."), HasSubstr("signal 9"),
                                                   HasSubstr("KILLED BY SIGNAL: 9")));
}

TEST(StoppedRankUnderMpi, OfAnotherNodeIsNamedAndTheJobEndsAfterTheLimit) {
  const TemporaryFolder folder;
  const auto result = run_stalling({"all-reduce", "2", std::to_string(SIGSTOP), "nodes"},
                                   watched(folder.path().string(), "1", "3"));
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_TRUE(says(result.errors, {"kolo: watch: ranks have waited", "\"sums\"", "the limit"}));
  EXPECT_THAT(result.errors, names_as_missing(2));
}

TEST(StoppedNeighbourUnderMpi, IsNamedWithTheTransferAndTheJobEnds) {
  const TemporaryFolder folder;
  const auto result = run_stalling({"ring", "2", std::to_string(SIGSTOP), "mpi"},
                                   watched(folder.path().string(), "1", "3"));
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_TRUE(says(result.errors, {"kolo: watch: rank", "the limit"}));
  EXPECT_THAT(result.errors, names_transfer_with(2));
}

TEST(CrossedRanksUnderMpi, OfTwoNodesEndAtOnce) {
  const TemporaryFolder folder;
  const auto result =
      run_stalling({"crossed", "both", "0", "nodes"}, watched(folder.path().string(), "0", "0"));
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_TRUE(says(result.errors, {"kolo: watch: ranks wait for each other",
                                   "rank 0 waits for rank 1 in transfer 1, receive of 1000 float32",
                                   "rank 1 waits for rank 0 in ", "the job ends"}));
}

TEST(SuspendedJobUnderMpi, OfTwoNodesGoesOn) {
  const TemporaryFolder folder;
  const auto result =
      run_stalling({"suspended", "all", "6", "nodes"}, watched(folder.path().string(), "4", "5"));
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_FALSE(says(result.errors, {"watch:"}));
}

TEST(LateRankUnderMpi, IsWaitedForWithAWord) {
  expect_that_a_late_rank_is_waited_for("program");
}

}  // namespace
}  // namespace kolo::testing
