// What signals do to a process that trains.
#include "run/launch/signals.h"

#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

namespace kolo {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

TEST(StopSignalDeathTest, AFirstSignalIsAQuestionThatCanBeAsked) {
  EXPECT_EXIT(
      {
        StopSignal stop;
        const bool before = stop.is_requested();
        std::raise(SIGTERM);
        ::_exit(!before && stop.is_requested() && stop.is_requested() && stop.name() == "SIGTERM"
                    ? 3
                    : 4);
      },
      ExitedWithCode(3), "");
}

// A closed terminal's signal is heard, unless nohup has seen to it that it is not.
TEST(StopSignalDeathTest, SighupIsOneOfThemUnlessItIsIgnored) {
  EXPECT_EXIT(
      {
        StopSignal stop;
        std::raise(SIGHUP);
        ::_exit(stop.is_requested() && stop.name() == "SIGHUP" ? 3 : 4);
      },
      ExitedWithCode(3), "");
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        StopSignal stop;
        std::raise(SIGHUP);
        std::raise(SIGHUP);
        ::_exit(stop.is_requested() ? 4 : 3);
      },
      ExitedWithCode(3), "");
}

TEST(StopSignalDeathTest, ASecondEndsTheProcessAlsoWhereNobodyAsks) {
  for (const int second : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(
        {
          const StopSignal stop;
          std::raise(SIGINT);
          std::raise(second);
          ::_exit(3);
        },
        KilledBySignal(second), "");
  }
}

TEST(StopSignalDeathTest, BeforeTheTrainingTheFirstEndsIt) {
  EXPECT_EXIT(
      {
        StopSignal stop;
        const EndAtOnce end(stop, EndAtOnce::Says::everything);
        std::raise(SIGINT);
        std::this_thread::sleep_for(std::chrono::seconds(20));
        ::_exit(3);
      },
      ExitedWithCode(75), "kolo: stopped by Ctrl-C \\(SIGINT\\) before the training began");
}

// A launcher's SIGTERM follows on what another rank has said; what else comes, people have sent.
TEST(StopSignalDeathTest, UnderALauncherOnlyWhatPeopleSendIsSaid) {
  for (const int signal : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(
        {
          StopSignal stop;
          const EndAtOnce end(stop, EndAtOnce::Says::what_people_sent);
          std::raise(signal);
          std::this_thread::sleep_for(std::chrono::seconds(20));
          ::_exit(3);
        },
        ExitedWithCode(75), signal == SIGTERM ? "^$" : "SIGINT");
  }
}

}  // namespace
}  // namespace kolo
