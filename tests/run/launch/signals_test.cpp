// Signals to a process that trains.
#include "run/launch/signals.h"

#include <csignal>
#include <string>
#include <tuple>

#include <gtest/gtest.h>
#include <unistd.h>

namespace kolo {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

TEST(StopSignalDeathTest, AFirstSignalIsAQuestionThatCanBeAsked) {
  EXPECT_EXIT(
      {
        StopSignal stop(StopSignal::Says::everything);
        stop.begin();
        const bool before = stop.is_requested();
        std::raise(SIGTERM);
        ::_exit(!before && stop.is_requested() && stop.is_requested() && stop.name() == "SIGTERM"
                    ? 3
                    : 4);
      },
      ExitedWithCode(3), "");
}

// A closed terminal's signal counts, unless nohup ignores it.
TEST(StopSignalDeathTest, SighupIsOneOfThemUnlessItIsIgnored) {
  EXPECT_EXIT(
      {
        StopSignal stop(StopSignal::Says::everything);
        stop.begin();
        std::raise(SIGHUP);
        ::_exit(stop.is_requested() && stop.name() == "SIGHUP" ? 3 : 4);
      },
      ExitedWithCode(3), "");
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        StopSignal stop(StopSignal::Says::everything);
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
          StopSignal stop(StopSignal::Says::everything);
          stop.begin();
          std::raise(SIGINT);
          std::raise(second);
          ::_exit(3);
        },
        KilledBySignal(second), "");
  }
}

// A launcher's SIGTERM follows another rank's message; people have sent other signals.
TEST(StopSignalDeathTest, BeforeTheTrainingTheFirstEndsItAndOnlyWhatPeopleSendIsSaid) {
  using enum StopSignal::Says;
  const std::string by_ctrl_c = "kolo: stopped by Ctrl-C \\(SIGINT\\) before the training began";
  for (const auto& [says, signal, said] :
       {std::tuple(everything, SIGINT, by_ctrl_c), std::tuple(all_but_sigterm, SIGINT, by_ctrl_c),
        std::tuple(all_but_sigterm, SIGTERM, std::string("^$")),
        std::tuple(nothing, SIGINT, std::string("^$"))}) {
    EXPECT_EXIT(
        {
          const StopSignal stop(says);
          std::raise(signal);
          ::_exit(3);
        },
        ExitedWithCode(75), said);
  }
}

}  // namespace
}  // namespace kolo
