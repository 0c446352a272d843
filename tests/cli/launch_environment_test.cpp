#include "cli/launch/launch_environment.h"

#include <map>

#include <gmock/gmock.h>

#include "cli/terminal.h"
#include "kolo/base/error.h"

namespace kolo::testing {
namespace {

EnvironmentLookup variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

LaunchEnvironment detect(std::map<std::string, std::string> values) {
  return detect_launch_environment(variables(std::move(values)));
}

TEST(LaunchEnvironment, NothingMeansOneProcess) {
  const auto environment = detect({});
  EXPECT_FALSE(environment.is_launched());
  EXPECT_EQ(environment.rank, 0);
  EXPECT_EQ(environment.size, 1);
  EXPECT_FALSE(environment.in_slurm_allocation);
}

TEST(LaunchEnvironment, RecognisesMpirun) {
  const auto open_mpi = detect({{"OMPI_COMM_WORLD_RANK", "3"},
                                {"OMPI_COMM_WORLD_SIZE", "8"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  EXPECT_EQ(open_mpi.launcher, "Open MPI");
  EXPECT_EQ(open_mpi.rank, 3);
  EXPECT_EQ(open_mpi.size, 8);
  EXPECT_EQ(open_mpi.local_size, 4);
  const auto mpich = detect({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  EXPECT_EQ(mpich.launcher, "MPICH or PMI");
  EXPECT_EQ(mpich.rank, 1);
  EXPECT_EQ(mpich.size, 2);
  EXPECT_FALSE(mpich.local_size);
}

TEST(LaunchEnvironment, UnderMpirunInASlurmJobTheMpiRankIsTheTruth) {
  const auto environment = detect({{"SLURM_JOB_ID", "7"},
                                   {"SLURM_STEP_ID", "0"},
                                   {"SLURM_PROCID", "0"},
                                   {"SLURM_NTASKS", "2"},
                                   {"OMPI_COMM_WORLD_RANK", "5"},
                                   {"OMPI_COMM_WORLD_SIZE", "6"}});
  EXPECT_EQ(environment.launcher, "Open MPI");
  EXPECT_EQ(environment.rank, 5);
  EXPECT_EQ(environment.size, 6);
}

TEST(LaunchEnvironment, TellsSrunFromABatchScript) {
  const auto task = detect({{"SLURM_JOB_ID", "7"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_PROCID", "1"},
                            {"SLURM_NTASKS", "9"},
                            {"SLURM_STEP_NUM_TASKS", "4"}});
  EXPECT_EQ(task.launcher, "Slurm");
  EXPECT_EQ(task.rank, 1);
  EXPECT_EQ(task.size, 4) << "of the step, not of the job";
  EXPECT_FALSE(task.in_slurm_allocation);
  const auto script = detect({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}});
  EXPECT_FALSE(script.is_launched());
  EXPECT_TRUE(script.in_slurm_allocation);
}

TEST(LaunchEnvironment, IgnoresNonsense) {
  EXPECT_FALSE(
      detect({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "2"}}).is_launched());
  EXPECT_FALSE(detect({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}).is_launched());
  EXPECT_FALSE(detect({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}).is_launched());
}

TEST(LaunchEnvironment, TheNumberAskedForMustBeTheNumberStarted) {
  const auto launched = detect({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  EXPECT_NO_THROW(require_ranks(launched, 0));
  EXPECT_NO_THROW(require_ranks(launched, 2));
  EXPECT_THROW(require_ranks(launched, 3), InputError);
  EXPECT_NO_THROW(require_ranks({}, 1));
  EXPECT_THROW(require_ranks({}, 2), InputError);
}

TEST(Terminal, IsDescribedToTheRanks) {
  for (const ProgressOptions& options :
       {ProgressOptions{.terminal = true, .width = 132, .unicode = true},
        ProgressOptions{.terminal = true, .width = 60, .unicode = false},
        ProgressOptions{.terminal = false, .unicode = false}}) {
    const auto read =
        progress_options_from_environment(variables({{"KOLO_TERMINAL", describe_terminal(options)},
                                                     {"OMPI_COMM_WORLD_RANK", "0"},
                                                     {"OMPI_COMM_WORLD_SIZE", "2"}}));
    EXPECT_EQ(read.terminal, options.terminal);
    EXPECT_EQ(read.unicode, options.unicode);
    if (options.terminal) {
      EXPECT_EQ(read.width, options.width);
    }
  }
}

}  // namespace
}  // namespace kolo::testing
