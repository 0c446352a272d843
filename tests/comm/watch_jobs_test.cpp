// Jobs of three processes in which one is killed or stopped: who is named, how the job ends, and
// that nothing of it remains.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/file.h"
#include "support/process.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// Factor by which everything takes longer, because what these jobs wait for tells something only
// where processes run when they want to: where there is more to do than the machine has cores, a
// rank may be late without being stopped. The average tells what was, the count what is now.
double patience() {
  std::ifstream file("/proc/loadavg");
  double average = 0, minutes = 0;
  int running = 0;
  file >> average >> minutes >> minutes >> running;
  constexpr double least = 1.5, most = 4;  // other tests may begin in a moment
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  return std::clamp(std::max<double>(average, running) / cores, least, most);
}

// Seconds of a test that is as patient as this.
std::string seconds(double on_quiet_machine, double patience) {
  return fmt::format("{:.1f}", on_quiet_machine * patience);
}

ProcessOptions options_of(const TemporaryFolder& folder, double warning, double limit,
                          double patience) {
  ProcessOptions options;
  options.deadline = std::chrono::seconds(static_cast<int>(60 * patience));
  options.environment = {{"KOLO_WATCH_WARNING", seconds(warning, patience)},
                         {"KOLO_WATCH_LIMIT", seconds(limit, patience)},
                         {"KOLO_WATCH_FOLDER", folder.path().string()}};
  return options;
}

ProcessResult run_stalling(const TemporaryFolder& folder, const std::string& mode, int victim,
                           int signal, const std::string& setting = "",
                           double patience = testing::patience()) {
  return run_job({MPIRUN_SCRIPT, "3", STALLING_JOB, mode, std::to_string(victim),
                  std::to_string(signal), setting},
                 options_of(folder, 1, 2.5, patience));
}

class KilledRank : public ::testing::TestWithParam<std::string> {};

TEST_P(KilledRank, EndsTheJobAtOnce) {
  const TemporaryFolder folder;
  const auto result = run_stalling(folder, GetParam(), 1, SIGKILL);
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  // It is the launcher that sees a process die; it says which, and how.
  EXPECT_THAT(
      result.output + result.errors,
      AnyOf(HasSubstr("signal 9"), HasSubstr("KILLED BY SIGNAL: 9"), HasSubstr("process is gone")));
}

INSTANTIATE_TEST_SUITE_P(Modes, KilledRank,
                         ::testing::Values("all-reduce", "broadcast", "backward", "ring"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

// The launcher's own status tells nothing of it: Open MPI's would end the others first, and with
// this setting it ends with 0. So a shell around each rank does.
TEST(KilledRankThatTheWatchSees, EndsTheOtherWithTheStatusOfTheKilled) {
  int killed = 0;
  // A rank that misses the other in its collective first ends by an exception, which is chance.
  for (int attempt = 0; attempt < 4 && killed < 2; ++attempt) {
    const TemporaryFolder folder;
    auto options = options_of(folder, 1, 60, testing::patience());
    options.environment["OMPI_MCA_orte_enable_recovery"] = "1";
    const auto result = run_job({MPIRUN_SCRIPT, "3", "sh", "-c",
                                 "\"$0\" all-reduce 1 9 nodes; echo status $?", STALLING_JOB},
                                options);
    ASSERT_FALSE(result.timed_out) << result.errors;
    const auto count = [&](const std::string& text) {
      const std::regex word(text);
      return std::distance(std::sregex_iterator(result.output.begin(), result.output.end(), word),
                           std::sregex_iterator());
    };
    if (count("status [0-9]+") < 2)
      GTEST_SKIP() << "this MPI's launcher ends all ranks when one is killed";
    killed = static_cast<int>(count("status 137"));
  }
  EXPECT_GE(killed, 2) << "the killed rank, and the one that saw it";
}

struct StopCase {
  std::string mode, setting, collective;
  int victim;
};

void PrintTo(const StopCase& stop, std::ostream* stream) {
  *stream << stop.mode << " " << stop.setting << " " << stop.victim;
}

class StoppedRank : public ::testing::TestWithParam<StopCase> {};

TEST_P(StoppedRank, IsNamedAndTheJobEndsAfterTheLimit) {
  const TemporaryFolder folder;
  const StopCase& stop = GetParam();
  const auto result = run_stalling(folder, stop.mode, stop.victim, SIGSTOP, stop.setting);
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_TRUE(
      says(result.errors, {"kolo: watch: ranks have waited", stop.collective, "the limit"}));
  for (int rank = 0; rank < 3; ++rank) {
    const auto file = folder.path() / ("kolo-watch-rank-0000" +
                                       std::string(1, static_cast<char>('0' + rank)) + ".txt");
    const bool can_be_read = rank != stop.victim || stop.setting.empty();
    EXPECT_TRUE(!can_be_read || std::filesystem::exists(file)) << file;
  }
  // Where it was when it was stopped is chance: before the collective, or in it, and perhaps with
  // another rank that waits for it there.
  EXPECT_THAT(result.errors, AnyOf(HasSubstr(fmt::format("not arrived: rank {}", stop.victim)),
                                   HasSubstr(fmt::format("; rank {} has, but", stop.victim)),
                                   HasSubstr(fmt::format("; rank {}, when last", stop.victim))));
  if (stop.setting.empty()) {
    EXPECT_TRUE(says(result.errors, {"is stopped"}));
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, StoppedRank,
                         ::testing::Values(StopCase{"all-reduce", "", "\"sums\"", 2},
                                           StopCase{"backward", "", "\"bucket ", 0},
                                           StopCase{"all-reduce", "nodes", "\"sums\"", 2},
                                           StopCase{"broadcast", "nodes", "\"weights\"", 2},
                                           StopCase{"all-reduce", "mpi", "\"sums\"", 2},
                                           StopCase{"all-reduce", "mpi", "\"sums\"", 0}));

// Both neighbours wait for it: who sends to it, and who receives from it.
class StoppedNeighbour : public ::testing::TestWithParam<std::string> {};

TEST_P(StoppedNeighbour, IsNamedWithTheTransferAndTheJobEnds) {
  const TemporaryFolder folder;
  const auto result = run_stalling(folder, "ring", 2, SIGSTOP, GetParam());
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("kolo: watch: rank"), HasSubstr("the limit"),
                    AnyOf(HasSubstr("receive of 50000 float32 (200000 bytes) from rank 2, tag 5, "
                                    "\"halo\""),
                          HasSubstr("send of 50000 float32 (200000 bytes) to rank 2, tag 5, "
                                    "\"halo\""))));
  if (GetParam().empty()) {
    EXPECT_TRUE(says(result.errors, {"is stopped"}));
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, StoppedNeighbour, ::testing::Values("", "nodes", "mpi"));

struct CrossCase {
  std::string kind, setting, words;
};

void PrintTo(const CrossCase& crossed, std::ostream* stream) {
  *stream << crossed.kind << " " << crossed.setting;
}

class CrossedRanks : public ::testing::TestWithParam<CrossCase> {};

// There is neither a warning nor a limit to wait for.
TEST_P(CrossedRanks, EndAtOnce) {
  const TemporaryFolder folder;
  const CrossCase& crossed = GetParam();
  const auto result =
      run_job({MPIRUN_SCRIPT, "3", STALLING_JOB, "crossed", crossed.kind, "0", crossed.setting},
              options_of(folder, 0, 0, testing::patience()));
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_TRUE(says(result.errors, {"kolo: watch: ranks wait for each other",
                                   "rank 0 waits for rank 1 in " + crossed.words,
                                   "rank 1 waits for rank 0 in ", "the job ends"}));
}

const std::string halo = "transfer 1, receive of 1000 float32";

INSTANTIATE_TEST_SUITE_P(
    Jobs, CrossedRanks,
    ::testing::Values(CrossCase{"orders", "", "call "}, CrossCase{"orders", "nodes", "call "},
                      CrossCase{"orders", "mpi", "call "}, CrossCase{"receives", "", halo},
                      CrossCase{"receives", "mpi", halo}, CrossCase{"both", "nodes", halo}));

struct SuspendCase {
  std::string ranks;
  double seconds;  // on a quiet machine
  std::string setting;
};

void PrintTo(const SuspendCase& suspend, std::ostream* stream) {
  *stream << suspend.ranks << " " << suspend.seconds << " " << suspend.setting;
}

class SuspendedJob : public ::testing::TestWithParam<SuspendCase> {};

// Time in which nobody ran is not waited, and what was waited before does not count twice.
TEST_P(SuspendedJob, GoesOnAfterMoreThanTheLimit) {
  const TemporaryFolder folder;
  const SuspendCase& suspend = GetParam();
  const double patience = testing::patience();
  const auto result = run_process({MPIRUN_SCRIPT, "3", STALLING_JOB, "suspended", suspend.ranks,
                                   seconds(suspend.seconds, patience), suspend.setting},
                                  options_of(folder, 1.5, 2, patience));
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_FALSE(says(result.errors, {"watch:"}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

INSTANTIATE_TEST_SUITE_P(Jobs, SuspendedJob,
                         ::testing::Values(SuspendCase{"all", 4, ""},
                                           SuspendCase{"all", 4, "nodes"},
                                           SuspendCase{"all", 4, "mpi"}, SuspendCase{"0", 0.8, ""},
                                           SuspendCase{"1", 0.8, "mpi"}));

TEST(WatchAtTheLimit, SaysHowLongItReallyWaited) {
  const TemporaryFolder folder;
  const double patience = testing::patience();
  const auto result = run_stalling(folder, "all-reduce", 1, SIGSTOP, "", patience);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(result.errors, found,
                                std::regex("has waited ([0-9.]+) s, and the limit is ([0-9.]+) s")))
      << result.errors;
  const double waited = std::stod(found[1]), limit = std::stod(found[2]);
  EXPECT_EQ(found[2], fmt::format("{:.4g}", std::stod(seconds(2.5, patience))));
  EXPECT_GE(waited, limit - .05);  // it is told by tenths
  EXPECT_LT(waited, 4 * limit);
}

TEST(WatchEnvironment, NonsenseIsRefusedBeforeAnythingStarts) {
  ProcessOptions options;
  options.environment = {{"KOLO_WATCH_LIMIT", "soon"}};
  const auto result = run_job({MPIRUN_SCRIPT, "2", STALLING_JOB, "all-reduce", "0", "0"}, options);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(says(result.errors, {"KOLO_WATCH_LIMIT is \"soon\"; expected seconds"}));
}

}  // namespace
}  // namespace kolo::testing
