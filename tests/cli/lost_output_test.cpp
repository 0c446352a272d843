// What becomes of a command whose output can't be written.
#include <cstdio>

#include <unistd.h>

#include "cli/small_runs.h"

namespace kolo::testing {
namespace {

// Runs kolo with stdout on a full disk, or closed.
ProcessResult run_without_room(const std::vector<std::string>& words) {
  return run_in_fork([&] {
    if (std::freopen("/dev/full", "w", stdout) == nullptr) return 125;
    return run_program(words);
  });
}

ProcessResult start_with_closed_stdout(const std::vector<std::string>& words) {
  return run_process(joined({"sh", "-c", R"("$@" >&-)", "sh", KOLO_PROGRAM}, words));
}

class LostOutput : public SmallRuns {};

TEST_F(LostOutput, IsAFailure) {
  const std::vector<std::vector<std::string>> commands = {
      {"--version"},
      {"train", config, "--show-config"},
      {"data", "inspect", data(), "--json"},
      {"sweep", config, "optimizer.lr=0.1,0.01", "--dry-run"}};
  for (const auto& words : commands) {
    SCOPED_TRACE(words.front());
    for (const auto& result : {run_without_room(words), start_with_closed_stdout(words)}) {
      EXPECT_TRUE(ends_with(result, 1, {"kolo: not all output could be written to stdout"}));
      EXPECT_EQ(std::ranges::count(result.errors, '\n'), 1) << result.errors;
    }
  }
}

TEST_F(LostOutput, OfRanksIsToldOnce) {
  ASSERT_NO_FATAL_FAILURE(have_run({"training.n_epochs=1"}));
  const auto result = run_without_room({"eval", folder / "run", "-n", "2", "--json"});
  EXPECT_TRUE(ends_with(result, 1, {"kolo: not all output could be written to stdout"}));
  EXPECT_EQ(std::ranges::count(result.errors, '\n'), 1) << result.errors;
}

TEST_F(LostOutput, LosesNoTraining) {
  for (const std::string ranks : {"1", "2"}) {
    SCOPED_TRACE(ranks);
    const auto result = run_without_room(arguments({"training.n_epochs=1", "-n", ranks}, ranks));
    EXPECT_TRUE(ends_with(result, 0, {"kolo: warning: not all output could be written to stdout"}));
    EXPECT_EQ(history(ranks).epochs().size(), 2U);
  }
}

// As with `kolo train | head`, in whose place tee or less may have died.
TEST_F(LostOutput, ATrainingOutlivesWhoReadsIt) {
  const std::string script = R"({ "$@"; echo $? >"$0"; } | true)";
  for (const std::string ranks : {"1", "2"}) {
    SCOPED_TRACE(ranks);
    const auto status = folder / ("status-" + ranks);
    const auto result =
        run_process(joined({"bash", "-c", script, status, KOLO_PROGRAM},
                           arguments({"training.n_epochs=1", "-n", ranks}, "pipe-" + ranks)));
    EXPECT_EQ(read_all(status), "0\n") << result.errors;
    EXPECT_EQ(history("pipe-" + ranks).epochs().size(), 2U);
  }
}

}  // namespace
}  // namespace kolo::testing
