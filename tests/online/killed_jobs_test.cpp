// A simulation that is killed again and again, at moments of chance, in the middle of saving too,
// and goes on each time from the newest that it has saved, ends with the bits of one that was not.
#include <random>

#include <gtest/gtest.h>

#include "support/process.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

constexpr int steps = 90;

ProcessResult run_simulation(const TemporaryFolder& folder, int killed_after, int microseconds) {
  ProcessOptions options;
  options.deadline = std::chrono::seconds(60);
  return run_job({MPIRUN_SCRIPT, "2", KILLED_JOB, folder.path().string(), std::to_string(steps),
                  std::to_string(killed_after), std::to_string(microseconds)},
                 options);
}

TEST(OnlineKilled, EndsWithTheSameBits) {
  const TemporaryFolder undisturbed, killed;
  const auto expected = run_simulation(undisturbed, 0, 0);
  ASSERT_EQ(expected.exit_code, 0) << expected.errors;
  ASSERT_FALSE(expected.output.empty());
  std::mt19937 random(static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed()));
  for (int kill = 0; kill < 5; ++kill) {
    const int after = std::uniform_int_distribution(4, 12)(random);
    const int microseconds = std::uniform_int_distribution(0, 20'000)(random);
    const auto result = run_simulation(killed, after, microseconds);
    EXPECT_FALSE(result.timed_out);
    EXPECT_NE(result.exit_code, 0) << "was not killed";
  }
  const auto found = run_simulation(killed, 0, 0);
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_EQ(found.output, expected.output);
}

}  // namespace
}  // namespace kolo::testing
