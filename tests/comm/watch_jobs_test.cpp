// Jobs of three processes in which one is killed or stopped: who is named, how the job ends, and
// that nothing of it remains.
#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/file.h"
#include "support/process.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

ProcessResult run_stalling(const TemporaryFolder& folder, const std::string& mode, int victim,
                           int signal, const std::string& setting = "") {
  ProcessOptions options;
  options.deadline = std::chrono::seconds(60);
  options.environment = {{"KOLO_WATCH_WARNING", "1"},
                         {"KOLO_WATCH_LIMIT", "2.5"},
                         {"KOLO_WATCH_FOLDER", folder.path().string()}};
  return run_job({MPIRUN_SCRIPT, "3", STALLING_JOB, mode, std::to_string(victim),
                  std::to_string(signal), setting},
                 options);
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
                         ::testing::Values("all-reduce", "broadcast", "backward"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

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
  EXPECT_THAT(result.errors, AllOf(HasSubstr("kolo: watch: ranks have waited"),
                                   HasSubstr(stop.collective), HasSubstr("the limit")));
  for (int rank = 0; rank < 3; ++rank) {
    const auto file = folder.path() / ("kolo-watch-rank-0000" +
                                       std::string(1, static_cast<char>('0' + rank)) + ".txt");
    const bool can_be_read = rank != stop.victim || stop.setting.empty();
    EXPECT_TRUE(!can_be_read || std::filesystem::exists(file)) << file;
  }
  // Where it was when it was stopped is chance: before the collective, or in it.
  EXPECT_THAT(result.errors, AnyOf(HasSubstr(fmt::format("not arrived: rank {}", stop.victim)),
                                   HasSubstr(fmt::format("; rank {} has, but", stop.victim))));
  if (stop.setting.empty()) {
    EXPECT_THAT(result.errors, HasSubstr("is stopped"));
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, StoppedRank,
                         ::testing::Values(StopCase{"all-reduce", "", "\"sums\"", 2},
                                           StopCase{"backward", "", "\"bucket ", 0},
                                           StopCase{"all-reduce", "nodes", "\"sums\"", 2},
                                           StopCase{"broadcast", "nodes", "\"weights\"", 2},
                                           StopCase{"all-reduce", "mpi", "\"sums\"", 2},
                                           StopCase{"all-reduce", "mpi", "\"sums\"", 0}));

struct SuspendCase {
  std::string ranks, seconds, setting;
};

void PrintTo(const SuspendCase& suspend, std::ostream* stream) {
  *stream << suspend.ranks << " " << suspend.seconds << " " << suspend.setting;
}

class SuspendedJob : public ::testing::TestWithParam<SuspendCase> {};

// Time in which nobody ran is not waited, and what was waited before does not count twice.
TEST_P(SuspendedJob, GoesOnAfterMoreThanTheLimit) {
  const TemporaryFolder folder;
  ProcessOptions options;
  options.environment = {{"KOLO_WATCH_WARNING", "1.5"},
                         {"KOLO_WATCH_LIMIT", "2"},
                         {"KOLO_WATCH_FOLDER", folder.path().string()}};
  const SuspendCase& suspend = GetParam();
  const auto result = run_process({MPIRUN_SCRIPT, "3", STALLING_JOB, "suspended", suspend.ranks,
                                   suspend.seconds, suspend.setting},
                                  options);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, Not(HasSubstr("watch:")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

INSTANTIATE_TEST_SUITE_P(Jobs, SuspendedJob,
                         ::testing::Values(SuspendCase{"all", "4", ""},
                                           SuspendCase{"all", "4", "nodes"},
                                           SuspendCase{"all", "4", "mpi"},
                                           SuspendCase{"0", "0.8", ""},
                                           SuspendCase{"1", "0.8", "mpi"}));

TEST(WatchAtTheLimit, SaysHowLongItReallyWaited) {
  const TemporaryFolder folder;
  const auto result = run_stalling(folder, "all-reduce", 1, SIGSTOP);
  EXPECT_THAT(result.errors, ContainsRegex("has waited (2\\.[5-9]|[3-9]\\.[0-9]) s, and the "
                                           "limit is 2.5 s"));
}

TEST(WatchEnvironment, NonsenseIsRefusedBeforeAnythingStarts) {
  ProcessOptions options;
  options.environment = {{"KOLO_WATCH_LIMIT", "soon"}};
  const auto result = run_job({MPIRUN_SCRIPT, "2", STALLING_JOB, "all-reduce", "0", "0"}, options);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.errors, HasSubstr("KOLO_WATCH_LIMIT is \"soon\"; expected seconds"));
}

}  // namespace
}  // namespace kolo::testing
