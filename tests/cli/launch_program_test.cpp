#include <filesystem>

#include <gmock/gmock.h>

#include "cli/background.h"

namespace kolo::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// kolo train in an environment as launchers and schedulers make it.
class LaunchProgram : public ::testing::Test {
 protected:
  [[nodiscard]] ProcessResult train(std::map<std::string, std::string> environment,
                                    const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"train",           KOLO_CONFIGS "/hello.yaml",
                                          "data.n_train=64", "data.n_valid=32",
                                          "--output",        output()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_kolo(arguments, std::move(environment));
  }

  [[nodiscard]] std::string output() const { return folder_ / "run"; }

  // A program that prints its name, what it was called with and how many threads ranks get.
  void write_stub(const std::string& name) const {
    folder_.write(name, "#!/bin/sh\necho \"${0##*/} $*\"\necho threads $OMP_NUM_THREADS\n");
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }

  [[nodiscard]] std::map<std::string, std::string> pbs_job(const std::string& nodes) const {
    folder_.write("nodes", nodes);
    return {{"PBS_JOBID", "7.server"},
            {"PBS_NODEFILE", folder_ / "nodes"},
            {"OMP_NUM_THREADS", "3"},
            {"PATH", folder_.path().string() + ":/usr/bin:/bin"}};
  }

  TemporaryFolder folder_;
};

TEST_F(LaunchProgram, RanksThatMpiLeavesAloneDoNotTrain) {
  const std::map<std::string, std::string> launchers[] = {
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "localhost"}},
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMIX_RANK", "0"}},
  };
  for (const auto& environment : launchers) {
    const auto result = train(environment);
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_THAT(result.errors, AllOf(StartsWith("kolo: "), HasSubstr("-n 2")));
    EXPECT_FALSE(fs::exists(output()));
  }
}

// Rank 0 would end them first if it said the same; what it does not know, a later one says.
TEST_F(LaunchProgram, ALaterRankSaysWhyWhereNoneBeforeItHasEndedIt) {
  const std::map<std::string, std::string> rank_1{{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  const auto result = train(rank_1, {"data.n_trian=3"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, AllOf(StartsWith("kolo: rank 1 (on "), HasSubstr("n_trian")));
  // That the launcher is the wrong one all of them know, and not every launcher ends the others.
  const auto alike = train(rank_1);
  EXPECT_EQ(alike.exit_code, 2);
  EXPECT_EQ(alike.errors, "");
}

TEST_F(LaunchProgram, APbsJobsNodesGetTheRanks) {
  write_stub("mpirun");
  const auto result = train(pbs_job("node-a\nnode-b\n"), {"-n", "3", "--oversubscribe"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(StartsWith("mpirun "), HasSubstr("node-a:2,node-b:1"), HasSubstr("threads 3")));
}

// Before mpirun or its ranks listen, a request is neither lost nor a failure.
TEST_F(LaunchProgram, ARequestToStopInTheFirstMomentsIsRepeatedUntilItIsHeard) {
  const auto up = folder_ / "up";
  const std::string hears_the_second = "n=0; trap \"n=\\$((n+1)); [ \\$n = 2 ] && exit 75\" USR1; ",
                    dies_of_it;
  for (const auto& how : {hears_the_second, dies_of_it}) {
    folder_.write("mpirun", "#!/bin/sh\nexec env --default-signal=USR1 sh -c '" + how + ": >" +
                                up.string() + "; while :; do sleep .02; done'\n");
    fs::permissions(folder_ / "mpirun", fs::perms::owner_all);
    const auto result = run_kolo_and(
        {"train", KOLO_CONFIGS "/hello.yaml", "-n", "2", "--oversubscribe", "-o", output()},
        [&](pid_t kolo) {
          if (wait_for_file(up)) ::kill(kolo, SIGTERM);
        },
        {{"PATH", folder_.path().string() + ":/usr/bin:/bin"}});
    EXPECT_EQ(result.exit_code, 75) << result.errors;
    fs::remove(up);
  }
}

// Open MPI 4.1's launcher may never end where ranks ended at the same moment.
TEST_F(LaunchProgram, ALauncherThatOutlivesItsRanksForLongIsEnded) {
  folder_.write("mpirun", "#!/bin/sh\nsh -c 'sleep 1.5; exit 75' &\nexec sleep 600\n");
  fs::permissions(folder_ / "mpirun", fs::perms::owner_all);
  const auto result =
      train({{"PATH", folder_.path().string() + ":/usr/bin:/bin"}}, {"-n", "2", "--oversubscribe"});
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_THAT(result.errors, HasSubstr("all ranks have ended, but " + folder_.path().string()));
}

TEST_F(LaunchProgram, APbsJobWithoutItsListOfNodesIsReported) {
  write_stub("mpirun");
  auto environment = pbs_job("node-a\n");
  environment["PBS_NODEFILE"] = "/nowhere/nodes";
  const auto result = train(environment, {"-n", "2", "--oversubscribe"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("PBS_NODEFILE"), HasSubstr("/nowhere/nodes")));
}

TEST_F(LaunchProgram, SrunGetsTheRanksInsideASlurmJob) {
  write_stub("srun");
  auto environment = pbs_job("");
  environment["SLURM_JOB_ID"] = "12";
  const auto result = train(environment, {"-n", "3"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(StartsWith("srun --mpi="), HasSubstr("--ntasks=3")));
}

TEST_F(LaunchProgram, TheLogSaysWhoStartedTheRun) {
  const auto result = train({{"SLURM_JOB_ID", "12"}, {"SLURM_RESTART_COUNT", "1"}});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("started in Slurm job 12, restart 1: rank 0 of 1"));
}

}  // namespace
}  // namespace kolo::testing
