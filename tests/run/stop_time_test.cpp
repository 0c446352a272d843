#include "run/stopping.h"

#include <cstdlib>
#include <ctime>

#include <gtest/gtest.h>

namespace kolo::testing {
namespace {

using namespace std::chrono_literals;

constexpr double noon = 1795521600;  // 2026-11-24 12:00 UTC

class StopTimes : public ::testing::Test {
 protected:
  StopTimes() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
  ~StopTimes() override {
    ::unsetenv("TZ");
    ::tzset();
  }

  StopTime stop{noon};
  const std::chrono::steady_clock::time_point begin{1h};
};

TEST_F(StopTimes, AreReadAsPeopleWriteThem) {
  EXPECT_EQ(parse_stop_time("18:30", noon), noon + 6.5 * 3600);
  EXPECT_EQ(parse_stop_time("18:30:20", noon), noon + 6.5 * 3600 + 20);
  EXPECT_EQ(parse_stop_time("11:59", noon), noon + 24 * 3600 - 60) << "tomorrow";
  EXPECT_EQ(parse_stop_time("2026-11-24T18:30", noon), noon + 6.5 * 3600);
  EXPECT_EQ(parse_stop_time("2026-11-24 18:30:10", noon), noon + 6.5 * 3600 + 10);
  EXPECT_EQ(parse_stop_time("+2h30m", noon), noon + 2.5 * 3600);
  EXPECT_EQ(parse_stop_time("+90s", noon), noon + 90);
  EXPECT_EQ(parse_stop_time("+1d", noon), noon + 86400);
  for (const char* wrong : {"", "+", "+2", "+h", "+2x", "25:00", "18:30 today", "noon", "18",
                            "2026-11-24", "+99999999h", "+0s"})
    EXPECT_FALSE(parse_stop_time(wrong, noon)) << wrong;
  EXPECT_EQ(describe_time(noon), "2026-11-24 12:00:00");
}

TEST_F(StopTimes, ComeEarlyEnoughForTheLongestStepAndItsCheckpoint) {
  EXPECT_FALSE(stop.has_come(noon - 1000, begin)) << "how long it has taken to begin is no step";
  EXPECT_FALSE(stop.has_come(noon - 999, begin + 1s));
  EXPECT_EQ(stop.margin(), 10);
  EXPECT_FALSE(stop.has_come(noon - 969, begin + 31s)) << "a step of 30 s";
  EXPECT_EQ(stop.margin(), 60);
  EXPECT_FALSE(stop.has_come(noon - 61, begin + 32s));
  EXPECT_TRUE(stop.has_come(noon - 60, begin + 33s));
  EXPECT_TRUE(stop.has_come(noon - 1000, begin + 34s))
      << "a clock that is set back changes nothing";
}

TEST_F(StopTimes, ComeEarlyEnoughForCheckpointsThatAreWrittenInTheBackground) {
  EXPECT_FALSE(stop.has_come(noon - 1000, begin));
  stop.note_checkpoint(20);
  EXPECT_FALSE(stop.has_come(noon - 998, begin + 2s)) << "a step of 2 s";
  EXPECT_EQ(stop.margin(), 44) << "one is on its way, and the last comes after it";
  stop.note_checkpoint(5);
  EXPECT_EQ(stop.margin(), 44) << "the longest counts";
  EXPECT_FALSE(stop.has_come(noon - 45, begin + 3s));
  EXPECT_TRUE(stop.has_come(noon - 44, begin + 4s));
}

TEST_F(StopTimes, CountOnASlowDiskUntilACheckpointWasWritten) {
  stop.expect_checkpoints(1'400'000'000);
  EXPECT_EQ(stop.margin(), 28);
  EXPECT_TRUE(StopTime(stop).has_come(noon - 28, begin));
  stop.note_checkpoint(1.5);
  EXPECT_EQ(stop.margin(), 10) << "this one is faster";
  EXPECT_FALSE(stop.has_come(noon - 28, begin));
}

}  // namespace
}  // namespace kolo::testing
