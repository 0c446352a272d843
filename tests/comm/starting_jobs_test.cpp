// Processes that are started in different ways: by launchers that their MPI does not know, or by
// nobody.
#include <map>
#include <string>

#include <gmock/gmock.h>

#include "comm/jobs.h"
#include "support/expect_end.h"
#include "support/process.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Variables = std::map<std::string, std::string>;

// Runs a program that makes its communicator by MPI, by hand, with a launcher's variables.
ProcessResult run_alone(const Variables& variables, const std::string& owner = "kolo") {
  ProcessOptions options;
  options.environment = variables;
  options.environment.insert({{"OMP_NUM_THREADS", "1"}, {"KOLO_WATCH", "off"}});
  return run_process({ENDING_JOB, owner, "main", "together"}, options);
}

// Each copy would be rank 0 of one rank, and write the same files.
TEST(ForeignLauncher, IsRefusedUnlessSomebodyInsists) {
  Variables variables = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  for (const std::string owner : {"kolo", "program"}) {
    const auto result = run_alone(variables, owner);
    EXPECT_NE(result.exit_code, 0) << owner;
    EXPECT_TRUE(says(result.errors, {"=2", "kolo run -n 2 PROGRAM", "KOLO_LAUNCHER_CHECK=off"}))
        << owner;
  }
  variables["KOLO_LAUNCHER_CHECK"] = "off";
  const auto result = run_alone(variables);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

TEST(NoLauncher, IsOneRank) {
  for (const Variables& variables :
       {Variables{},
        // Variables of a job's script, and of one task of srun's.
        Variables{{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}},
        Variables{{"SLURM_JOB_ID", "7"},
                  {"SLURM_JOBID", "7"},
                  {"SLURM_NODELIST", "n1"},
                  {"SLURM_NTASKS", "4"},
                  {"SLURM_STEP_ID", "0"},
                  {"SLURM_PROCID", "0"},
                  {"SLURM_STEP_NUM_TASKS", "1"}}}) {
    const auto result = run_alone(variables);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_FALSE(says(result.errors, {"kolo"}));
  }
}

TEST(LauncherOfSlurm, ThatConnectsNobodyIsRefusedBeforeMpiEndsTheProgram) {
  const auto result = run_alone({{"SLURM_JOB_ID", "7"},
                                 {"SLURM_JOBID", "7"},
                                 {"SLURM_NODELIST", "n1"},
                                 {"SLURM_STEP_ID", "0"},
                                 {"SLURM_PROCID", "1"},
                                 {"SLURM_STEP_NUM_TASKS", "2"}});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(says(result.errors, {"Slurm's srun has started 2 processes", "SLURM_STEP_NUM_TASKS=2",
                                   "srun --mpi="}));
}

// MPI itself would end the program, or take handles for others.
TEST(TwoMpisInOneProcess, AreTold) {
  for (const std::string owner : {"kolo", "program"}) {
    const auto result = run_alone({{"LD_PRELOAD", OTHER_MPI}}, owner);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(says(result.errors, {"comm: two MPIs in one process: kolo is built with ",
                                     "but the MPI that answers here is "}));
  }
}

// The late rank and the others wait for each other.
TEST(LateRank, IsWaitedForWithAWord) {
  expect_that_a_late_rank_is_waited_for("kolo");
}

TEST(LateRank, EndsTheJobAfterTheLimit) {
  const auto result = run_stalling({"late", "1", "", "kolo"}, watched("", "0", "1"));
  expect_end(result, 1);
  EXPECT_TRUE(says(result.errors, {"the limit is 1 s, and the job ends"}));
}

}  // namespace
}  // namespace kolo::testing
