// Jobs of three ranks as processes, whose ranks end in different ways, most of them before the
// others: these learn of it, at once and by name, though the watch has no limit, and the job ends.
// Over ranks that are killed or stopped: watch_jobs_test.cpp; under mpirun: mpi_jobs_test.cpp.
#include <string>

#include <gmock/gmock.h>

#include "comm/jobs.h"
#include "support/process.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class EndingTogether : public ::testing::TestWithParam<Ending> {};

TEST_P(EndingTogether, IsDoneWithoutAWord) {
  const auto result = run_ending(GetParam());
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_EQ(result.errors, "");
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, EndingTogether,
    ::testing::Values(Ending{"kolo", "inner", "together", ""},
                      Ending{"kolo", "main", "together", ""},
                      Ending{"kolo", "static", "together", ""},
                      Ending{"kolo", "inner", "exits", ""}, Ending{"kolo", "main", "exits", ""},
                      Ending{"kolo", "static", "exits", ""}, Ending{"kolo", "inner", "lost", ""},
                      Ending{"kolo", "main", "lost", ""}, Ending{"kolo", "inner", "forked", ""},
                      Ending{"kolo", "main", "forked", ""}, Ending{"kolo", "static", "forked", ""}),
    name_of_ending);

class EndingBeforeTheOthers : public ::testing::TestWithParam<Ending> {};

TEST_P(EndingBeforeTheOthers, IsSaidAndEndsTheJob) {
  const auto result = run_ending(GetParam());
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_THAT(result.errors, AnyOf(HasSubstr("can't be completed, because rank 1 "),
                                   HasSubstr("watch: rank 1 has left")))
      << result.errors;
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, EndingBeforeTheOthers,
    ::testing::Values(Ending{"kolo", "inner", "caught", ""}, Ending{"kolo", "main", "caught", ""},
                      Ending{"kolo", "static", "caught", ""}, Ending{"kolo", "main", "return", ""},
                      Ending{"kolo", "static", "return", ""}, Ending{"kolo", "inner", "exit", ""},
                      Ending{"kolo", "main", "exit", ""}, Ending{"kolo", "static", "exit", ""},
                      Ending{"kolo", "inner", "release", ""},
                      Ending{"kolo", "static", "release", ""},
                      Ending{"kolo", "inner", "unjoined", ""},
                      Ending{"kolo", "static", "unjoined", ""},
                      Ending{"kolo", "main", "caught", "T"}, Ending{"kolo", "main", "exit", "T"},
                      Ending{"kolo", "inner", "release", "T"}),
    name_of_ending);

TEST(EndingByAnException, EndsTheJobWithItsWords) {
  const auto result = run_ending({"kolo", "inner", "thrown", ""});
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_TRUE(says(result.errors, {"a mistake of rank 1"}));
}

TEST(EndingInsideACollective, IsSaidAndEndsTheJob) {
  const auto result = run_ending({"kolo", "main", "hooked", ""});
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_FALSE(says(result.errors, {"was killed by SIGKILL"}));
  EXPECT_TRUE(says(result.errors, {"rank 1: the program ends with status 0, but exit() was called "
                                   "inside a collective"}));
}

TEST(EndingWithoutAWatch, IsSeenByTheOthers) {
  const auto result = run_ending({"kolo", "inner", "release", ""}, "off");
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_TRUE(says(result.errors, {"can't be completed, because rank 1 has left"}));
}

// Alone among kolo's ranks, and a program that nobody has started, which has threads and MPI.
TEST(ForkedChildOfOneRank, EndsAsTheProgramDoes) {
  for (const bool is_started : {true, false}) {
    const std::vector<std::string> program = {ENDING_JOB, "kolo", "main", "forked"};
    const auto result = is_started ? run_on_ranks(1, program, {}) : run_process(program, {});
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
  }
}

}  // namespace
}  // namespace kolo::testing
