// Programs with an MPI of their own (host_program.cpp), on several ranks and under all of MPI's
// thread levels.
#include <algorithm>
#include <chrono>
#include <sstream>

#include <gmock/gmock.h>

#include "support/process.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

struct Program {
  std::string scenario, level, setting;
  int ranks = 2;
};

void PrintTo(const Program& program, std::ostream* stream) {
  *stream << program.scenario << " " << program.level << " " << program.setting << " x"
          << program.ranks;
}

std::string name_of_test(const ::testing::TestParamInfo<Program>& test) {
  const Program& program = test.param;
  return program.scenario + "_" + program.level + "_" +
         (program.setting.empty() ? "" : program.setting + "_") + std::to_string(program.ranks);
}

ProcessResult run_host(const Program& program) {
  ProcessOptions options;
  options.deadline = std::chrono::seconds(60);
  // Open MPI's launcher would end those that outlive a killed rank.
  if (program.scenario == "killed") options.environment = {{"OMPI_MCA_orte_enable_recovery", "1"}};
  return run_job({MPIRUN_SCRIPT, std::to_string(program.ranks), HOST_PROGRAM, program.scenario,
                  program.level, program.setting},
                 options);
}

// Lines in no order: ranks print when they like.
std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(" of ") != line.npos) lines.push_back(line);  // and what a launcher says is not
  }
  std::ranges::sort(lines);
  return lines;
}

void expect_success(const ProcessResult& result) {
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.left_behind, 0);
}

class HostProgram : public ::testing::TestWithParam<Program> {};

TEST_P(HostProgram, FindsAllAsItMustBe) {
  const auto result = run_host(GetParam());
  expect_success(result);
  EXPECT_FALSE(says(result.errors, {"kolo"})) << "nobody has anything to say";
}

INSTANTIATE_TEST_SUITE_P(
    Programs, HostProgram,
    ::testing::Values(
        Program{"two", "single", "", 2}, Program{"two", "serialized", "nodes", 4},
        Program{"two", "multiple", "mpi", 3}, Program{"rounds", "funneled", "", 2},
        Program{"rounds", "multiple", "nodes", 3}, Program{"rounds", "single", "", 1},
        Program{"sets", "single", "", 4}, Program{"sets", "multiple", "nodes", 3},
        Program{"sets", "funneled", "mpi", 2}, Program{"mistakes", "funneled", "", 3},
        Program{"mistakes", "multiple", "nodes", 3}, Program{"mistakes", "single", "mpi", 2},
        Program{"forgotten", "single", "", 1}, Program{"forgotten", "single", "", 2},
        Program{"forgotten", "multiple", "nodes", 3}, Program{"forgotten", "multiple", "", 4},
        Program{"forgotten", "serialized", "mpi", 2}, Program{"patient", "funneled", "", 2},
        Program{"patient", "multiple", "nodes", 3}),
    name_of_test);

// What collectives come to does not depend on how MPI may be called.
class HostResults : public ::testing::TestWithParam<Program> {};

TEST_P(HostResults, AreTheSameBitsUnderAllThreadLevels) {
  Program program = GetParam();
  std::vector<std::string> first;
  for (const std::string level : {"single", "funneled", "serialized", "multiple"}) {
    program.level = level;
    const auto result = run_host(program);
    expect_success(result);
    const auto lines = sorted_lines(result.output);
    EXPECT_EQ(std::ssize(lines), 2 * program.ranks) << result.output;
    if (first.empty()) first = lines;
    EXPECT_EQ(lines, first) << level;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, HostResults,
                         ::testing::Values(Program{"collectives", "every", "", 1},
                                           Program{"collectives", "every", "", 2},
                                           Program{"collectives", "every", "", 4},
                                           Program{"collectives", "every", "nodes", 4},
                                           Program{"collectives", "every", "mpi", 2}),
                         name_of_test);

class HostWithAFailedRank : public ::testing::TestWithParam<Program> {};

// All that are left have learnt who has failed, in all that they call, and end by themselves. What
// launchers say when a process is killed is their own.
TEST_P(HostWithAFailedRank, GoesOnToItsOwnEnd) {
  const Program& program = GetParam();
  const auto result = run_host(program);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.left_behind, 0);
  // MPICH's launcher and Open MPI 5's end all when one is killed, before all have learnt it.
  EXPECT_FALSE(says(result.errors, {"failed: "})) << result.errors;
  const bool has_ended_others = result.output.find("BAD TERMINATION") != std::string::npos ||
                                result.errors.find("prterun noticed") != std::string::npos;
  if (program.scenario == "killed" && has_ended_others)
    GTEST_SKIP() << "this MPI's launcher ends all ranks when one is killed, before they can tell "
                    "what they saw";
  for (int rank = 0; rank < program.ranks; ++rank) {
    if (rank == 1 && program.scenario != "late") continue;
    EXPECT_TRUE(says(result.output, {"rank " + std::to_string(rank) + " has learnt"}))
        << result.errors;
  }
  EXPECT_TRUE(says(result.errors, {"the session is broken"}));
  if (program.scenario != "killed") {
    EXPECT_EQ(result.exit_code, 0) << result.errors;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Programs, HostWithAFailedRank,
    ::testing::Values(Program{"killed", "single", "", 3}, Program{"killed", "multiple", "", 4},
                      Program{"killed", "funneled", "nodes", 3},
                      Program{"killed", "multiple", "nodes", 3}, Program{"thrown", "single", "", 3},
                      Program{"thrown", "multiple", "nodes", 3},
                      Program{"thrown", "multiple", "mpi", 2}, Program{"late", "single", "", 2},
                      Program{"late", "serialized", "nodes", 3},
                      Program{"late", "multiple", "mpi", 3}),
    name_of_test);

TEST(HostThatWantsTheJobToEnd, HasItEnd) {
  for (const std::string setting : {"", "nodes"}) {
    const auto result = run_host({"aborted", "multiple", setting, 3});
    EXPECT_FALSE(result.timed_out);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(result.left_behind, 0);
  }
}

}  // namespace
}  // namespace kolo::testing
