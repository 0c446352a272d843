// kolo run, for real: small shell programs on two ranks, and what they are told when it is asked to
// end.
#include <csignal>

#include <fmt/format.h>

#include "cli/background.h"
#include "kolo/base/file.h"
#include "support/expect_end.h"
#include "support/matchers.h"
#include "support/needs_mpi.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// kolo run, with small shell programs on two ranks.
class RunProgram : public ::testing::Test {
 protected:
  // A shell program; $RANK is its rank, whatever launcher has started it.
  [[nodiscard]] std::string program(const std::string& text) const {
    return folder_.write_program(
        "program",
        "#!/bin/sh\n"
        "RANK=${KOLO_PROCESS_RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}}\n" +
            text);
  }

  [[nodiscard]] std::vector<std::string> arguments(const std::vector<std::string>& options,
                                                   const std::string& text) const {
    return joined(joined({"run", "-n", "2", "--oversubscribe", "--launcher", launcher_}, options),
                  {program(text)});
  }

  [[nodiscard]] ProcessResult run(const std::vector<std::string>& options,
                                  const std::string& text) const {
    return run_kolo(arguments(options, text));
  }

  // A shell function: `meet NAME` waits until both ranks have come to it.
  [[nodiscard]] std::string meet() const {
    const auto file = (folder_ / "met").string();
    return "meet() { : > " + file + "-$1-$RANK; while ! [ -e " + file + "-$1-0 -a -e " + file +
           "-$1-1 ]; do sleep .02; done; }\n";
  }

  TemporaryFolder folder_;
  std::string launcher_ = "processes";
};

class RunProgramByMpi : public RunProgram {
 protected:
  void SetUp() override {
    KOLO_NEEDS_MPI();
    launcher_ = "mpi";
  }
};

TEST_F(RunProgramByMpi, TagsEveryLineWithItsRank) {
  const auto result = run({}, "echo here; echo there >&2");
  EXPECT_TRUE(succeeds(result, {"[0] here\n", "[1] here\n"}));
  EXPECT_TRUE(says(result.errors, {"[0] there\n", "[1] there\n"}));
}

TEST_F(RunProgramByMpi, EndsWithTheFailedRanksStatus) {
  const auto result = run({}, "[ $RANK = 1 ] && exit 7; sleep 20");
  expect_end(result, 7);
  EXPECT_THAT(result.errors, ContainsRegex("kolo run: rank 1 \\(on .*\\): .*/program ended with "
                                           "status 7\n"));
  EXPECT_FALSE(says(result.errors, {"rank 0"})) << "it was ended because of the other";
}

TEST_F(RunProgramByMpi, AKilledRankIsAReasonToStartAgain) {
  const auto result =
      run({"--max-restarts", "1"},
          "[ $RANK$KOLO_RESTART = 10 ] && kill -9 $$; [ $KOLO_RESTART = 1 ] || sleep 20");
  EXPECT_TRUE(ends_with(result, 0, {"the job ended with status 137 (Killed); starting it again"}));
  EXPECT_EQ(result.left_behind, 0);
}

TEST_F(RunProgram, WhatCannotBeFoundIsWrongInput) {
  const auto result = run_kolo({"run", "-n", "2", "--oversubscribe", "/nowhere/to/be/found"});
  EXPECT_TRUE(is_refused(result, {"/nowhere/to/be/found"}));
  EXPECT_EQ(result.output, "");
}

TEST_F(RunProgram, AFailedJobIsStartedAgainAndEachRestartHasLogsOfItsOwn) {
  const auto logs = folder_.path() / "logs";
  const auto result = run({"--max-restarts", "2", "--logs", logs},
                          meet() +
                              "echo rank $RANK attempt $KOLO_RESTART; meet $KOLO_RESTART; "
                              "[ $KOLO_RESTART = 2 ]");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "");
  EXPECT_TRUE(says(result.errors, {"starting it again (restart 2 of 2): 2 ranks"}));
  for (const int rank : {0, 1}) {
    for (const int restart : {0, 1, 2}) {
      const auto name = fmt::format("rank-000{}{}.log", rank,
                                    restart == 0 ? "" : fmt::format(".restart-{}", restart));
      EXPECT_EQ(read_text_file(logs / name), fmt::format("rank {} attempt {}\n", rank, restart));
    }
  }
}

TEST_F(RunProgram, DoesNotStartAgainWhatEndsOnPurpose) {
  for (const int status : {0, 2, 75}) {
    const auto text = meet() + fmt::format("[ $RANK = 0 ] && echo once; meet {}; sleep .2; exit {}",
                                           status, status);
    const auto result = run({"--max-restarts", "2"}, text);
    EXPECT_EQ(result.exit_code, status);
    EXPECT_EQ(result.output, "[0] once\n");
  }
}

TEST_F(RunProgram, AKilledRankLeavesNothingBehind) {
  const auto result =
      run({}, "[ $RANK = 1 ] && kill -9 $$; trap '' TERM; sleep 20; sleep 20; sleep 20");
  expect_end(result, ::testing::Ne(0));
}

// kolo run is asked to end: the ranks are told, once, and nothing is started again.
class RunSignals : public RunProgram {
 protected:
  // Both ranks' programs run `text`, which says that they are ready, and then kolo is signalled.
  ProcessResult signalled(const std::string& text, const std::function<void(pid_t)>& send) {
    const auto ready = [&](const std::string& rank) { return folder_ / ("ready-" + rank); };
    const auto program = "get_ready() { : > " + ready("$RANK").string() + "; }\n" + meet() + text;
    return run_kolo_and(arguments({"--max-restarts", "3"}, program), [&](pid_t kolo) {
      if (wait_for_file(ready("0")) && wait_for_file(ready("1"))) send(kolo);
    });
  }

  // Ends of its own will some time after the signal, as one does that has a checkpoint to write,
  // and after both were told: some launchers kill the others as soon as one has failed. `trap` has
  // to come before get_ready; `wait` is what a shell lets a signal interrupt.
  static std::string polite(const std::string& last_words) {
    return "count=0\n"
           "trap 'count=$((count + 1)); echo told $count; meet told; sleep 1; " +
           last_words +
           "' TERM\n"
           "trap 'echo told otherwise' INT USR1 USR2\n"
           "get_ready; echo restart $KOLO_RESTART\n"
           "while :; do sleep 20 & wait $!; done";
  }
};

void expect_told_once(const ProcessResult& result) {
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("[0] told 1\n"), HasSubstr("[1] told 1\n"), Not(HasSubstr("told 2")),
                    Not(HasSubstr("told otherwise")), Not(HasSubstr("restart 1"))));
  EXPECT_FALSE(says(result.errors, {"restart"}));
}

TEST_F(RunSignals, SigtermReachesTheRanksWhichTakeTheirTime) {
  const auto result = signalled(polite("exit 75"), [](pid_t kolo) { ::kill(kolo, SIGTERM); });
  expect_told_once(result);
  EXPECT_EQ(result.exit_code, 75);
}

TEST_F(RunSignals, CtrlCAtATerminalIsTheSameForTheRanksOfMpi) {
  KOLO_NEEDS_MPI();
  launcher_ = "mpi";
  const auto result = signalled(polite("exit 3"), [](pid_t kolo) { ::kill(-kolo, SIGINT); });
  expect_told_once(result);
  EXPECT_EQ(result.exit_code, 3) << "a failure, but not to start again: the user has ended it";
}

TEST_F(RunSignals, AProgramThatKnowsNoSignalsIsEndedByIt) {
  const auto result =
      signalled("get_ready; exec sleep 30", [](pid_t kolo) { ::kill(kolo, SIGTERM); });
  expect_end(result, 128 + SIGTERM);
  EXPECT_FALSE(says(result.errors, {"restart"}));
}

TEST_F(RunSignals, ASecondSignalEndsTheJobAtOnce) {
  const std::string deaf = "trap 'get_told' TERM\nget_told() { : > " +
                           (folder_ / "told-$RANK").string() +
                           "; }\nget_ready\nwhile :; do sleep 20 & wait $!; done";
  const auto result = signalled(deaf, [&](pid_t kolo) {
    ::kill(kolo, SIGINT);
    if (wait_for_file(folder_ / "told-0") && wait_for_file(folder_ / "told-1"))
      ::kill(kolo, SIGINT);
  });
  expect_end(result, ::testing::Ne(0));
  EXPECT_FALSE(says(result.errors, {"restart"}));
}

TEST_F(RunSignals, Sigusr1IsPassedOnAsItIs) {
  EXPECT_TRUE(succeeds(
      signalled(
          "trap 'echo checkpoint; exit 0' USR1\nget_ready\nwhile :; do sleep 20 & wait $!; done",
          [](pid_t kolo) { ::kill(kolo, SIGUSR1); }),
      {"[0] checkpoint\n", "[1] checkpoint\n"}));
}

}  // namespace
}  // namespace kolo::testing
