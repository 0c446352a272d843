// Jobs of three ranks as processes, of which one is killed or stopped: who is named, how the job
// ends, and that nothing of it remains. Under mpirun: mpi_jobs_test.cpp.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <regex>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "comm/jobs.h"
#include "support/process.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::ContainsRegex;

// Seconds that a rank may wait for another before it is told, and before the job ends. Longer than
// a busy machine lets a process wait for its turn.
const std::string warning = "1", limit = "3";

std::string without_hyphens(const ::testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::erase(name, '-');
  return name;
}

class KilledRank : public ::testing::TestWithParam<std::string> {};

TEST_P(KilledRank, IsNamedAndEndsTheJobAtOnce) {
  const TemporaryFolder folder;
  const auto result = run_stalling({GetParam(), "1", std::to_string(SIGKILL)},
                                   watched(folder.path().string(), "0", "0"));
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_THAT(
      result.errors,
      ContainsRegex("kolo: rank 1 \\(process [0-9]+\\) was killed by SIGKILL; the job ends"));
}

INSTANTIATE_TEST_SUITE_P(Modes, KilledRank,
                         ::testing::Values("all-reduce", "broadcast", "backward", "ring"),
                         without_hyphens);

// A shell around each rank hides its end from kolo, so that it is for the others to see it.
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
  EXPECT_TRUE(says(result.errors, {"rank 1 is gone: its process"}));
}

struct StopCase {
  std::string mode, collective;
  int victim;
};

void PrintTo(const StopCase& stop, std::ostream* stream) {
  *stream << stop.mode << " " << stop.victim;
}

class StoppedRank : public ::testing::TestWithParam<StopCase> {};

TEST_P(StoppedRank, IsNamedAndTheJobEndsAfterTheLimit) {
  const TemporaryFolder folder;
  const StopCase& stop = GetParam();
  const auto result =
      run_stalling({stop.mode, std::to_string(stop.victim), std::to_string(SIGSTOP)},
                   watched(folder.path().string(), warning, limit));
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_TRUE(says(result.errors,
                   {"kolo: watch: ranks have waited", stop.collective, "is stopped", "the limit"}));
  for (int rank = 0; rank < 3; ++rank) {
    const auto file = folder.path() / fmt::format("kolo-watch-rank-{:05}.txt", rank);
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
  }
  EXPECT_THAT(result.errors, names_as_missing(stop.victim));
}

INSTANTIATE_TEST_SUITE_P(Jobs, StoppedRank,
                         ::testing::Values(StopCase{"all-reduce", "\"sums\"", 2},
                                           StopCase{"backward", "\"bucket ", 0},
                                           StopCase{"broadcast", "\"weights\"", 2}));

TEST(StoppedNeighbour, IsNamedWithTheTransferAndTheJobEnds) {
  const TemporaryFolder folder;
  const auto result = run_stalling({"ring", "2", std::to_string(SIGSTOP)},
                                   watched(folder.path().string(), warning, limit));
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_TRUE(says(result.errors, {"kolo: watch: rank", "the limit", "is stopped"}));
  EXPECT_THAT(result.errors, names_transfer_with(2));
}

class CrossedRanks : public ::testing::TestWithParam<std::string> {};

// There is neither a warning nor a limit to wait for.
TEST_P(CrossedRanks, EndAtOnce) {
  const TemporaryFolder folder;
  const auto result =
      run_stalling({"crossed", GetParam(), "0"}, watched(folder.path().string(), "0", "0"));
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  const std::string halo = "transfer 1, receive of 1000 float32";
  EXPECT_TRUE(says(result.errors,
                   {"kolo: watch: ranks wait for each other",
                    "rank 0 waits for rank 1 in " + (GetParam() == "orders" ? "call " : halo),
                    "rank 1 waits for rank 0 in ", "the job ends"}));
}

INSTANTIATE_TEST_SUITE_P(Jobs, CrossedRanks, ::testing::Values("orders", "receives", "both"),
                         without_hyphens);

struct SuspendCase {
  std::string ranks, seconds;
};

void PrintTo(const SuspendCase& suspend, std::ostream* stream) {
  *stream << suspend.ranks << " " << suspend.seconds;
}

class SuspendedJob : public ::testing::TestWithParam<SuspendCase> {};

// Time in which nobody ran is not waited, and what was waited before does not count twice.
TEST_P(SuspendedJob, GoesOn) {
  const TemporaryFolder folder;
  const SuspendCase& suspend = GetParam();
  const auto result = run_stalling({"suspended", suspend.ranks, suspend.seconds},
                                   watched(folder.path().string(), "4", "5"));
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.errors, "");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

INSTANTIATE_TEST_SUITE_P(Jobs, SuspendedJob,
                         ::testing::Values(SuspendCase{"all", "6"}, SuspendCase{"0", "0.8"}));

TEST(WatchAtTheLimit, SaysHowLongItReallyWaited) {
  const TemporaryFolder folder;
  const auto begin = std::chrono::steady_clock::now();
  const auto result = run_stalling({"all-reduce", "1", std::to_string(SIGSTOP)},
                                   watched(folder.path().string(), warning, limit));
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  std::smatch found;
  ASSERT_TRUE(std::regex_search(result.errors, found,
                                std::regex("has waited ([0-9.]+) s, and the limit is ([0-9.]+) s")))
      << result.errors;
  EXPECT_EQ(found[2], limit);
  EXPECT_GE(std::stod(found[1]), std::stod(limit) - .05);  // it is told by tenths
  EXPECT_LT(std::stod(found[1]), all.count());
}

TEST(WatchEnvironment, NonsenseIsRefusedBeforeAnythingStarts) {
  const auto result =
      run_stalling({"all-reduce", "0", "0"}, {.environment = {{"KOLO_WATCH_LIMIT", "soon"}}});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_TRUE(says(result.errors, {"KOLO_WATCH_LIMIT is \"soon\"; expected seconds"}));
}

}  // namespace
}  // namespace kolo::testing
