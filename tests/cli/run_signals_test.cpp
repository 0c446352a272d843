// kolo run is asked to end: the ranks are told, once, and nothing is started again.
#include <csignal>

#include "cli/background.h"
#include "cli/run_program.h"
#include "support/needs_mpi.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_EQ(result.left_behind, 0);
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
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_FALSE(says(result.errors, {"restart"}));
}

TEST_F(RunSignals, Sigusr1IsPassedOnAsItIs) {
  const auto result = signalled(
      "trap 'echo checkpoint; exit 0' USR1\nget_ready\nwhile :; do sleep 20 & wait $!; done",
      [](pid_t kolo) { ::kill(kolo, SIGUSR1); });
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(says(result.output, {"[0] checkpoint\n", "[1] checkpoint\n"}));
}

}  // namespace
}  // namespace kolo::testing
