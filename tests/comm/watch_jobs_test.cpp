// Jobs of three ranks as processes, of which one is killed or stopped: it is named, the job ends,
// and nothing of it remains. Under mpirun: mpi_jobs_test.cpp.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <regex>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "comm/jobs.h"
#include "kolo/base/file.h"
#include "support/expect_end.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

// Seconds that a rank may wait for another before it is told, and before the job ends. Longer than
// a busy machine lets a process wait for its turn.
const std::string warning = "1", limit = "3";

TEST(KilledRank, IsNamedAndEndsTheJobAtOnce) {
  for (const std::string mode : {"all-reduce", "ring"}) {
    SCOPED_TRACE(mode);
    const TemporaryFolder folder;
    const auto result = run_stalling({mode, "1", std::to_string(SIGKILL)},
                                     watched(folder.path().string(), "0", "0"));
    expect_end(result, 128 + SIGKILL);
    EXPECT_THAT(
        result.errors,
        ContainsRegex("kolo: rank 1 \\(process [0-9]+\\) was killed by SIGKILL; the job ends"));
  }
}

// A shell around each rank hides its end from kolo, so that only the other ranks can see it.
TEST(KilledRankThatTheOthersSee, EndsThem) {
  const TemporaryFolder folder;
  const auto result =
      run_on_ranks(3, {"sh", "-c", "\"$0\" all-reduce 1 9; echo status $?.", STALLING_JOB},
                   watched(folder.path().string(), "0", "0"));
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.left_behind, 0);
  const auto count = [&](const std::string& text) {
    const std::regex word(text);
    return std::distance(std::sregex_iterator(result.output.begin(), result.output.end(), word),
                         std::sregex_iterator());
  };
  EXPECT_EQ(count("status [0-9]+\\."), 3) << result.output;
  EXPECT_EQ(count("status 0\\."), 0) << result.output;
  EXPECT_GE(count("status 137\\."), 1) << result.output;
  EXPECT_TRUE(says(result.errors, {"rank 1 is gone: its process",
                                   "it was killed (for memory, as a rule), "
                                   "has crashed, or has ended by itself, with exit()"}));
}

// The lowest rank whose watch is alive names it.
TEST(StoppedRank, IsNamedAndTheJobEndsAfterTheLimit) {
  struct Stop {
    std::string mode, collective;
    int victim;
  };
  for (const auto& [mode, collective, victim] :
       {Stop{"all-reduce", "\"sums\"", 2}, Stop{"backward", "\"bucket ", 0}}) {
    SCOPED_TRACE(mode);
    const TemporaryFolder folder;
    const auto begin = std::chrono::steady_clock::now();
    const auto result = run_stalling({mode, std::to_string(victim), std::to_string(SIGSTOP)},
                                     watched(folder.path().string(), warning, limit));
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
    expect_end(result, ::testing::Ne(0));
    EXPECT_TRUE(says(result.errors, {"kolo: watch: ranks have waited", collective, "is stopped"}));
    EXPECT_THAT(result.errors, names_as_missing(victim));
    for (int rank = 0; rank < 3; ++rank) {
      const auto file = folder.path() / fmt::format("kolo-watch-rank-{:05}.txt", rank);
      EXPECT_TRUE(std::filesystem::exists(file)) << file;
    }
    std::smatch found;
    ASSERT_TRUE(std::regex_search(
        result.errors, found, std::regex("has waited ([0-9.]+) s, and the limit is ([0-9.]+) s")))
        << result.errors;
    EXPECT_EQ(found[2], limit);
    EXPECT_GE(std::stod(found[1]), std::stod(limit) - .05);  // it is told by tenths
    EXPECT_LT(std::stod(found[1]), all.count());
  }
}

// Both neighbours wait for it: one sends to it, the other receives from it.
TEST(StoppedNeighbour, IsNamedWithTheTransferAndTheJobEnds) {
  const TemporaryFolder folder;
  const auto result = run_stalling({"ring", "2", std::to_string(SIGSTOP)},
                                   watched(folder.path().string(), warning, limit));
  expect_end(result, ::testing::Ne(0));
  EXPECT_TRUE(says(result.errors, {"kolo: watch: rank", "the limit", "is stopped"}));
  EXPECT_THAT(
      result.errors,
      AnyOf(HasSubstr("receive of 50000 float32 (200000 bytes) from rank 2, tag 5, \"halo\""),
            HasSubstr("send of 50000 float32 (200000 bytes) to rank 2, tag 5, \"halo\"")));
  EXPECT_TRUE(says(read_text_file(folder.path() / "kolo-watch-rank-00000.txt"),
                   {"transfers, with the peers' ranks in the job", "tag 5, \"halo\""}));
}

// The watch has neither a warning nor a limit here.
TEST(CrossedRanks, EndAtOnce) {
  for (const auto& [kind, call] :
       {std::pair{"orders", "call "}, std::pair{"both", "transfer 1, receive of 1000 float32"}}) {
    SCOPED_TRACE(kind);
    const TemporaryFolder folder;
    const auto result =
        run_stalling({"crossed", kind, "0"}, watched(folder.path().string(), "0", "0"));
    expect_end(result, ::testing::Ne(0));
    EXPECT_TRUE(says(result.errors, {"kolo: watch: ranks wait for each other", "the job ends"}));
    const auto names = [&](const std::string& other) {
      return AllOf(HasSubstr("rank 0 waits for " + other + " in " + call),
                   HasSubstr(other + " waits for rank 0 in "));
    };
    // In calls of all ranks rank 0 lacks both others, and either may be named.
    EXPECT_THAT(result.errors, AnyOf(names("rank 1"), names("rank 2")));
  }
}

// Time in which a rank was stopped doesn't count as waiting.
TEST(SuspendedJob, GoesOn) {
  for (const auto& [ranks, seconds] : {std::pair{"all", "6"}, std::pair{"0", "0.8"}}) {
    SCOPED_TRACE(ranks);
    const TemporaryFolder folder;
    const auto result =
        run_stalling({"suspended", ranks, seconds}, watched(folder.path().string(), "4", "5"));
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(result.errors, "");
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
}

}  // namespace
}  // namespace kolo::testing
