// Jobs of three ranks as processes, whose ranks end in different ways, most of them before the
// others: these learn of it, at once and by name, though the watch has no limit, and the job ends.
// Ranks that are killed or stopped: watch_jobs_test.cpp; under mpirun: mpi_jobs_test.cpp.
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "comm/jobs.h"
#include "support/expect_end.h"
#include "support/process.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

TEST(EndingTogether, IsDoneWithoutAWord) {
  for (const auto& [place, way] :
       {std::pair{"static", "together"}, std::pair{"inner", "exits"}, std::pair{"static", "exits"},
        std::pair{"main", "lost"}, std::pair{"static", "forked"}}) {
    SCOPED_TRACE(std::string(place) + " " + way);
    const auto result = run_ending({"kolo", place, way, ""});
    expect_end(result, 0);
    EXPECT_EQ(result.errors, "");
  }
}

TEST(EndingBeforeTheOthers, IsSaidAndEndsTheJob) {
  for (const Ending& ending :
       {Ending{"kolo", "inner", "caught", ""}, Ending{"kolo", "main", "return", ""},
        Ending{"kolo", "main", "exit", ""}, Ending{"kolo", "static", "exit", ""},
        Ending{"kolo", "inner", "release", ""}, Ending{"kolo", "static", "unjoined", ""},
        Ending{"kolo", "main", "caught", "T"}, Ending{"kolo", "inner", "release", "T"}}) {
    SCOPED_TRACE(ending.place + " " + ending.way + " " + ending.setting);
    const auto result = run_ending(ending);
    EXPECT_EQ(result.exit_code, 1);
    expect_early_end(result);
  }
}

TEST(EndingByAnException, EndsTheJobWithItsWords) {
  const auto result = run_ending({"kolo", "inner", "thrown", ""});
  expect_end(result, 1);
  EXPECT_TRUE(says(result.errors, {"a mistake of rank 1"}));
}

TEST(EndingInsideACollective, IsSaidAndEndsTheJob) {
  const auto result = run_ending({"kolo", "main", "hooked", ""});
  expect_end(result, ::testing::Ne(0));
  EXPECT_FALSE(says(result.errors, {"was killed by SIGKILL"}));
  EXPECT_TRUE(says(result.errors, {"rank 1: the program ends with status 0, but exit() was called "
                                   "inside a collective"}));
}

TEST(EndingWithoutAWatch, IsSeenByTheOthers) {
  const auto result = run_ending({"kolo", "inner", "release", ""}, "off");
  expect_end(result, 1);
  EXPECT_TRUE(says(result.errors, {"can't be completed, because rank 1 has left"}));
}

// One rank that kolo has started, and a program that nobody has started, which has threads and MPI.
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
