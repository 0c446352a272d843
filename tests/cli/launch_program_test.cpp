#include <filesystem>

#include "cli/background.h"
#include "kolo/base/machine.h"
#include "kolo/train/observe/history.h"
#include "support/matchers.h"
#include "support/needs_mpi.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

// kolo train in an environment as launchers and schedulers make it.
class LaunchProgram : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& more) const {
    return joined({"train", KOLO_CONFIGS "/hello.yaml", "data.n_train=64", "data.n_valid=32",
                   "--output", output()},
                  more);
  }
  [[nodiscard]] ProcessResult train(const std::map<std::string, std::string>& environment,
                                    const std::vector<std::string>& more = {}) const {
    return run_kolo(words(more), environment);
  }

  [[nodiscard]] std::string output() const { return folder_ / "run"; }

  // A program that prints its name, what it was called with and how many threads ranks get.
  void write_stub(const std::string& name) const {
    folder_.write_program(name, "#!/bin/sh\necho \"${0##*/} $*\"\necho threads $OMP_NUM_THREADS\n");
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
  KOLO_NEEDS_MPI();
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
  KOLO_NEEDS_MPI();
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
  KOLO_NEEDS_MPI();
  write_stub("mpirun");
  const auto result = train(pbs_job("node-a\nnode-b\n"), {"-n", "3", "--oversubscribe"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(StartsWith("mpirun "), HasSubstr("node-a:2,node-b:1"), HasSubstr("threads 3")));
}

// Before mpirun or its ranks listen, a request is neither lost nor a failure.
TEST_F(LaunchProgram, ARequestToStopInTheFirstMomentsIsRepeatedUntilItIsHeard) {
  KOLO_NEEDS_MPI();
  const auto up = folder_ / "up";
  const std::string hears_the_second = "n=0; trap \"n=\\$((n+1)); [ \\$n = 2 ] && exit 75\" USR1; ",
                    dies_of_it;
  for (const auto& how : {hears_the_second, dies_of_it}) {
    folder_.write_program("mpirun", "#!/bin/sh\nexec env --default-signal=USR1 sh -c '" + how +
                                        ": >" + up.string() + "; while :; do sleep .02; done'\n");
    const auto result =
        run_kolo_and({"train", KOLO_CONFIGS "/hello.yaml", "-n", "2", "communication.launcher=mpi",
                      "--oversubscribe", "-o", output()},
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
  KOLO_NEEDS_MPI();
  folder_.write_program("mpirun", "#!/bin/sh\nsh -c 'sleep 1.5; exit 75' &\nexec sleep 600\n");
  const auto result = train({{"PATH", folder_.path().string() + ":/usr/bin:/bin"}},
                            {"-n", "2", "--oversubscribe", "communication.launcher=mpi"});
  EXPECT_TRUE(ends_with(result, 75, {"all ranks have ended, but " + folder_.path().string()}));
}

// kolo itself, not a fork of this process: what a program is started with counts.
class MachineAsItIs : public LaunchProgram {
 protected:
  [[nodiscard]] ProcessResult train(const std::map<std::string, std::string>& environment,
                                    const std::vector<std::string>& more = {}) const {
    return start_kolo(words(more), environment);
  }
};

TEST_F(MachineAsItIs, CpusAreCountedAsTheProcessWasStarted) {
  const auto cpus = detect_cpu_limits().affinity;
  for (const std::map<std::string, std::string>& binding :
       {std::map<std::string, std::string>{{"OMP_PLACES", "cores"}, {"OMP_PROC_BIND", "spread"}},
        {{"OMP_PLACES", "{0}"}, {"GOMP_CPU_AFFINITY", "0"}}}) {
    auto environment = binding;
    environment["PATH"] = folder_.path();  // no mpirun, which takes its time
    const auto result = start_kolo({"doctor"}, environment);
    EXPECT_TRUE(
        says(result.output, {fmt::format("{} CPUs on ", cpus), "which kolo doesn't follow"}))
        << result.errors;
    for (const auto& [name, value] : binding) EXPECT_TRUE(says(result.output, {name + "="}));
  }
}

TEST_F(MachineAsItIs, OpenMpsBindingIsForTheUsersProgramsOnly) {
  const std::map<std::string, std::string> binding{{"OMP_PROC_BIND", "close"}};
  const auto result = start_kolo({"run", "-n", "1", "--launcher", "processes", "--", "sh", "-c",
                                  "echo bind=$OMP_PROC_BIND before=$KOLO_OMP_PROC_BIND_BEFORE"},
                                 binding);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, "bind=close before=\n");
}

// OpenMP with fewer threads than promised skipped parts of a convolution, or hung.
TEST_F(MachineAsItIs, OpenMpGivesTheThreadsThatItPromises) {
  const auto history = [&] { return History::read(folder_ / "run" / "history.json"); };
  const std::map<std::string, std::string> two{{"OMP_NUM_THREADS", "2"}};
  ASSERT_EQ(train(two).exit_code, 0);
  const auto loss = history().epochs().back().val_loss;
  EXPECT_TRUE(succeeds(
      train({{"OMP_NUM_THREADS", "2"}, {"OMP_DYNAMIC", "true"}, {"OMP_MAX_ACTIVE_LEVELS", "0"}})));
  EXPECT_EQ(history().epochs().back().val_loss, loss);
  EXPECT_TRUE(
      succeeds(train({{"OMP_NUM_THREADS", "2"}, {"OMP_THREAD_LIMIT", "1"}}), {"1 thread each"}));
}

TEST_F(MachineAsItIs, ThreadsThatAProcessCannotHaveAreRefused) {
  for (const char* threads : {"99999999999999999999", "1025,2", "abc", "0", "-3", "2x"}) {
    EXPECT_TRUE(
        is_refused(train({{"OMP_NUM_THREADS", threads}}),
                   {"kolo: the environment variable OMP_NUM_THREADS", threads, "from 1 to 1024"}));
    EXPECT_FALSE(fs::exists(folder_ / "run"));
  }
}

// As daemons start programs.
TEST_F(MachineAsItIs, ClosedStandardStreamsAreNobodysFiles) {
  const auto script = fmt::format(
      "exec <&- >&- 2>&-; '{}' train '{}' data.n_train=64 data.n_valid=32 -n 2 --oversubscribe "
      "--output '{}'",
      KOLO_PROGRAM, KOLO_CONFIGS "/hello.yaml", (folder_ / "run").string());
  EXPECT_TRUE(succeeds(run_process({"sh", "-c", script}, {.deadline = kolo_deadline})));
  EXPECT_FALSE(History::read(folder_ / "run" / "history.json").epochs().empty());
}

// kolo says nothing of its own where mpirun has said why.
TEST_F(MachineAsItIs, WhatMpirunSaysOfItsFailureIsShown) {
  KOLO_NEEDS_MPI();
  const auto result = train({{"TMPDIR", "/proc/nowhere"}},
                            {"-n", "2", "--oversubscribe", "communication.launcher=mpi"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(says(result.errors, {"/proc/nowhere"}));
}

TEST_F(MachineAsItIs, AnEmptyEnvironmentIsEnough) {
  EXPECT_TRUE(succeeds(run_process(
      {"env", "-i", KOLO_PROGRAM, "train", KOLO_CONFIGS "/hello.yaml", "data.n_train=64",
       "data.n_valid=32", "-n", "2", "--oversubscribe", "--output", folder_ / "run"},
      {.deadline = kolo_deadline})));
}

TEST_F(LaunchProgram, APbsJobWithoutItsListOfNodesIsReported) {
  write_stub("mpirun");
  auto environment = pbs_job("node-a\n");
  environment["PBS_NODEFILE"] = "/nowhere/nodes";
  EXPECT_TRUE(is_refused(train(environment, {"-n", "2", "--oversubscribe"}),
                         {"PBS_NODEFILE", "/nowhere/nodes"}));
}

TEST_F(LaunchProgram, SrunGetsTheRanksInsideASlurmJob) {
  KOLO_NEEDS_MPI();
  write_stub("srun");
  auto environment = pbs_job("");
  environment["SLURM_JOB_ID"] = "12";
  const auto result = train(environment, {"-n", "3"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(StartsWith("srun --mpi="), HasSubstr("--ntasks=3")));
}

TEST_F(LaunchProgram, TheLogSaysWhoStartedTheRun) {
  EXPECT_TRUE(succeeds(train({{"SLURM_JOB_ID", "12"}, {"SLURM_RESTART_COUNT", "1"}}),
                       {"started in Slurm job 12, restart 1: rank 0 of 1"}));
}

}  // namespace
}  // namespace kolo::testing
