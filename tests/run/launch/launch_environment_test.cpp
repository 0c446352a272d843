#include "kolo/run/launch_ranks.h"

#include <map>
#include <sstream>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "run/launch/terminal.h"

namespace kolo::testing {
namespace {

// Environment of "A=1 B=2".
EnvironmentLookup variables(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream words(text);
  for (std::string word; words >> word;)
    values.emplace(word.substr(0, word.find('=')), word.substr(word.find('=') + 1));
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

LaunchEnvironment detect(const std::string& text) {
  return detect_launch_environment(variables(text));
}

TEST(LaunchEnvironment, NothingMeansOneProcess) {
  const auto environment = detect("");
  EXPECT_FALSE(environment.is_launched());
  EXPECT_EQ(environment.rank, 0);
  EXPECT_EQ(environment.size, 1);
  EXPECT_FALSE(environment.in_slurm_allocation);
}

struct LauncherCase {
  const char* name;
  const char* variables;
  StartedBy started_by;
  int rank;
  int size;
  std::optional<int> local_size, cpus;
};

const LauncherCase launcher_cases[] = {
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_RANK=3 "
     "PMIX_NAMESPACE=17",
     StartedBy::open_mpi, 3, 8, 4, std::nullopt},
    {"MPICH", "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", StartedBy::mpich, 1, 2,
     2, std::nullopt},
    {"MPICH in a Slurm job, whose own proxies srun starts",
     "SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 PMI_RANK=5 PMI_SIZE=6 "
     "MPI_LOCALNRANKS=3",
     StartedBy::mpich, 5, 6, 3, std::nullopt},
    {"srun",
     "SLURM_STEP_ID=4 SLURM_PROCID=6 SLURM_STEP_NUM_TASKS=7 SLURM_NTASKS=9 "
     "SLURM_STEP_TASKS_PER_NODE=2(x3),1 SLURM_NODEID=3 SLURM_CPUS_PER_TASK=16",
     StartedBy::srun, 6, 7, 1, 16},
    {"PALS",
     "PALS_RANKID=5 PALS_LOCAL_RANKID=1 PALS_NODEID=1 PALS_LOCAL_SIZE=4 PALS_DEPTH=8 PMI_RANK=5 "
     "PMI_SIZE=8",
     StartedBy::pals, 5, 8, 4, 8},
    {"another with PMI", "PMI_RANK=1 PMI_SIZE=2", StartedBy::pmi, 1, 2, std::nullopt, std::nullopt},
    {"torchrun", "RANK=2 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2", StartedBy::torchrun, 2, 4,
     2, std::nullopt},
    {"what torchrun's and Slurm's variables say about MPI's ranks is of no concern",
     "RANK=0 WORLD_SIZE=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2 "
     "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4",
     StartedBy::open_mpi, 1, 4, std::nullopt, std::nullopt},
};

TEST(LaunchEnvironment, RecognisesLaunchers) {
  for (const auto& expected : launcher_cases) {
    SCOPED_TRACE(expected.name);
    const auto environment = detect(expected.variables);
    EXPECT_EQ(environment.started_by, expected.started_by);
    EXPECT_EQ(environment.launcher, name_of(expected.started_by));
    EXPECT_EQ(environment.rank, expected.rank);
    EXPECT_EQ(environment.size, expected.size);
    EXPECT_TRUE(environment.size_is_known);
    EXPECT_EQ(environment.local_size, expected.local_size);
    EXPECT_EQ(environment.cpus, expected.cpus);
  }
}

TEST(LaunchEnvironment, SaysWhichVariablesTell) {
  EXPECT_EQ(detect("PMI_RANK=1 PMI_SIZE=2").variables, "PMI_RANK=1, PMI_SIZE=2");
  EXPECT_EQ(detect("SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=4").variables,
            "SLURM_PROCID=1, SLURM_NTASKS=4");
  EXPECT_EQ(detect("").variables, "");
}

TEST(LaunchEnvironment, SomeLaunchersTellTheSizeThroughMpiOnly) {
  for (const auto& environment :
       {detect("PALS_RANKID=3"), detect("PMIX_RANK=3 PMIX_NAMESPACE=job")}) {
    EXPECT_TRUE(environment.is_launched());
    EXPECT_FALSE(environment.size_is_known);
    EXPECT_EQ(environment.rank, 3);
    EXPECT_THROW(require_ranks(environment, 4), InputError);
  }
}

TEST(LaunchEnvironment, KnowsHowSrunIntroducesRanks) {
  const std::string task = "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2";
  EXPECT_EQ(detect(task).slurm_mpi, SlurmMpi::none);
  EXPECT_EQ(detect(task + " PMI_RANK=0 PMI_SIZE=2").slurm_mpi, SlurmMpi::pmi2);
  EXPECT_EQ(detect(task + " PMIX_RANK=0").slurm_mpi, SlurmMpi::pmix);
}

TEST(LaunchEnvironment, ReadsSlurmsTasksOfEachNode) {
  EXPECT_EQ(slurm_tasks_on_node("3", 0), 3);
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 2), 2);
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 3), 1);
  for (const auto* const wrong : {"", "x", "2(x", "2(x0)", "2(xx)", "-1", ",", "2(x3),1,"})
    EXPECT_EQ(slurm_tasks_on_node(wrong, 4), std::nullopt) << wrong;
}

TEST(LaunchEnvironment, NamesTheJob) {
  const auto describe = [](const std::string& text) { return describe_job(variables(text)); };
  EXPECT_EQ(describe(""), "");
  EXPECT_EQ(describe("SLURM_JOB_ID=12 SLURM_RESTART_COUNT=0"), "Slurm job 12");
  EXPECT_EQ(
      describe("SLURM_JOB_ID=12 SLURM_ARRAY_JOB_ID=10 SLURM_ARRAY_TASK_ID=2 SLURM_RESTART_COUNT=3"),
      "Slurm job 10_2, restart 3");
  EXPECT_EQ(describe("PBS_JOBID=7.server"), "PBS job 7.server");
}

TEST(LaunchEnvironment, TellsAPbsJobFromOneOfItsRanks) {
  EXPECT_TRUE(detect("PBS_JOBID=7 PBS_NODEFILE=nodes").in_pbs_job);
  EXPECT_FALSE(detect("PBS_NODEFILE=nodes PALS_RANKID=0").in_pbs_job);
}

TEST(LaunchEnvironment, TellsSrunFromABatchScript) {
  const auto task =
      detect("SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=4");
  EXPECT_EQ(task.started_by, StartedBy::srun);
  EXPECT_EQ(task.rank, 1);
  EXPECT_EQ(task.size, 4) << "of the step, not of the job";
  EXPECT_FALSE(task.in_slurm_allocation);
  const auto script = detect("SLURM_JOB_ID=7 SLURM_PROCID=0");
  EXPECT_FALSE(script.is_launched());
  EXPECT_TRUE(script.in_slurm_allocation);
}

TEST(LaunchEnvironment, IgnoresNonsense) {
  EXPECT_FALSE(detect("OMPI_COMM_WORLD_RANK=x OMPI_COMM_WORLD_SIZE=2").is_launched());
  EXPECT_FALSE(detect("PMI_RANK=2 PMI_SIZE=2").is_launched());
  EXPECT_FALSE(detect("RANK=0 WORLD_SIZE=1").is_launched()) << "nobody is missed";
  EXPECT_FALSE(detect("PMI_RANK=-1 PMI_SIZE=2").is_launched());
}

TEST(LaunchEnvironment, TheNumberAskedForMustBeTheNumberStarted) {
  const auto launched = detect("PMI_RANK=0 PMI_SIZE=2");
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
    const auto read = progress_options_from_environment(
        [&, rank = variables("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2")](const char* name) {
          const bool is_noted = std::string(name) == "KOLO_TERMINAL";
          return is_noted ? std::optional(describe_terminal(options)) : rank(name);
        });
    EXPECT_EQ(read.terminal, options.terminal);
    EXPECT_EQ(read.unicode, options.unicode);
    if (options.terminal) {
      EXPECT_EQ(read.width, options.width);
    }
  }
}

TEST(JobNumber, IsTheSchedulersAndTheSameAfterARequeue) {
  const auto number = [](const std::string& text) { return job_number(variables(text)); };
  EXPECT_EQ(number(""), "");
  EXPECT_EQ(number("SLURM_JOB_ID=12 SLURM_RESTART_COUNT=1"), "12");
  EXPECT_EQ(number("SLURM_JOB_ID=14 SLURM_ARRAY_JOB_ID=12 SLURM_ARRAY_TASK_ID=2"), "12_2");
  EXPECT_EQ(number("PBS_JOBID=7.server"), "7");
  EXPECT_EQ(number("PBS_JOBID=7.server OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2"), "")
      << "ranks on other nodes may not know it";
  EXPECT_EQ(number("PBS_JOBID=7.server OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 KOLO_JOB=7"),
            "7");
}

}  // namespace
}  // namespace kolo::testing
