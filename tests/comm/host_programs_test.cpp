// Programs with an MPI of their own (host_program.cpp), under MPI's thread levels: a job of four
// ranks goes through many scenarios, because starting one takes longer than most of them.
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/process.h"
#include "support/read_all.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Words = std::vector<std::string>;

ProcessResult run_host(const std::string& level, const Words& scenarios,
                       const std::map<std::string, std::string>& environment = {}) {
  Words words = {MPIRUN_SCRIPT, "4", HOST_PROGRAM, level};
  words.insert(words.end(), scenarios.begin(), scenarios.end());
  auto result = run_job(words, {.deadline = std::chrono::seconds(60), .environment = environment});
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.left_behind, 0);
  EXPECT_FALSE(says(result.errors, {"failed: "})) << result.errors;
  return result;
}

// Lines that tell results, in no order: ranks print when they like.
Words sorted_results(const std::string& text) {
  Words lines = lines_of(text);
  std::erase_if(lines, [](const auto& line) { return line.find(" of ") == line.npos; });
  std::ranges::sort(lines);
  return lines;
}

// Results of collectives don't depend on how MPI may be called.
TEST(HostProgram, FindsAllAsItMustBeAndTheSameBitsUnderAllThreadLevels) {
  const Words collectives = {"collectives/1", "collectives/2", "collectives/4",
                             "collectives/4/nodes", "collectives/2/mpi"};
  constexpr int results = 2 * (1 + 2 + 4 + 4 + 2);
  const std::map<std::string, Words> others_of_level = {
      {"single", {"two/2", "rounds/1", "sets/4", "mistakes/2/mpi", "patient/2", "forgotten/2"}},
      {"serialized",
       {"two/4/nodes", "rounds/2", "sets/2/mpi", "mistakes/3", "thrown/3", "late/3/nodes",
        "forgotten/2/mpi"}},
      {"multiple",
       {"two/3/mpi", "rounds/3/nodes", "sets/3/nodes", "mistakes/3/nodes", "patient/3/nodes",
        "thrown/2/mpi", "late/3/mpi", "forgotten/3/nodes"}}};
  Words first;
  for (const auto& [level, others] : others_of_level) {
    SCOPED_TRACE(level);
    Words scenarios = collectives;
    scenarios.insert(scenarios.end(), others.begin(), others.end());
    const auto result = run_host(level, scenarios);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    const auto lines = sorted_results(result.output);
    EXPECT_EQ(std::ssize(lines), results) << result.output;
    if (first.empty()) first = lines;
    EXPECT_EQ(lines, first);
    if (level == "single") {
      EXPECT_FALSE(says(result.errors, {"kolo"})) << "nobody has anything to say";
    } else {
      EXPECT_TRUE(says(result.errors, {"the session is broken"}));
    }
  }
}

// The ranks that are left learn who has failed, and end by themselves. Open MPI's launcher would
// end ranks that outlive a killed one; MPICH's and Open MPI 5's do.
TEST(HostWithAKilledRank, GoesOnToItsOwnEnd) {
  const auto result =
      run_host("multiple", {"killed/4/nodes"}, {{"OMPI_MCA_orte_enable_recovery", "1"}});
  if (result.output.find("BAD TERMINATION") != std::string::npos ||
      result.errors.find("prterun noticed") != std::string::npos)
    GTEST_SKIP() << "this MPI's launcher ends all ranks when one is killed, before they can tell "
                    "what they saw";
  EXPECT_TRUE(says(result.output, {"rank 0 has learnt", "rank 2 has learnt", "rank 3 has learnt"}))
      << result.errors;
  EXPECT_TRUE(says(result.errors, {"the session is broken"}));
}

TEST(HostThatWantsTheJobToEnd, HasItEnd) {
  EXPECT_NE(run_host("multiple", {"aborted/4/nodes"}).exit_code, 0);
}

}  // namespace
}  // namespace kolo::testing
