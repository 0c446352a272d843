// run_ranks() on several nodes, with shell scripts as launchers: files say which nodes are dead,
// and what the ranks do.
#include <csignal>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/run/launch_ranks.h"
#include "support/matchers.h"
#include "support/process.h"
#include "support/read_all.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

class Relaunch : public ::testing::Test {
 protected:
  Relaunch() {
    // Each start writes a line to `starts`, and does what the next line of `ends` says. A file
    // dead-NODE makes a node unreachable.
    const std::string launcher =
        "#!/bin/sh\ncd '" + folder.path().string() +
        "'\n"
        "case \"$*\" in *' true') for n in dead-*; do case \"$*\" in *\"${n#dead-}\"*) exit 1;; "
        "esac; done; exit 0;; esac\n"
        "echo \"$*\" >>starts\n"
        "end=$(sed -n \"$(wc -l <starts)p\" ends)\n"
        "eval \"$end\"\n";
    for (const char* name : {"mpirun", "srun", "scontrol"}) program(name, launcher);
    program("scontrol", "#!/bin/sh\necho node1; echo node2\n");
  }

  void program(const std::string& name, const std::string& text) const {
    folder.write_program("bin/" + name, text);
  }

  [[nodiscard]] ProcessResult run(int ranks, const RestartPolicy& policy,
                                  std::map<std::string, std::string> environment = {}) const {
    LaunchRequest request{.ranks = ranks,
                          .oversubscribe = true,
                          .command = {"work"},
                          .launcher = LauncherChoice::mpi};
    if (!environment.contains("SLURM_JOB_ID"))
      request.hosts = {{"node1", 1}, {"node2", 1}, {"node3", 1}};
    environment["PATH"] = (folder / "bin").string() + ":/usr/bin:/bin";
    return run_in_fork([&] { return run_ranks(request, policy); }, {.environment = environment});
  }

  [[nodiscard]] std::vector<std::string> starts() const {
    return lines_of(read_text_file(folder / "starts"));
  }

  // Tells whether examine_machine() has refused the mpirun of this PATH.
  [[nodiscard]] static bool has_refused(const std::string& path) {
    try {
      (void)examine_machine(detect_launch_environment(), LauncherChoice::mpi);
    } catch (const InputError& error) {
      return std::string(error.what()).find(path + "/mpirun in PATH is of another MPI") !=
             std::string::npos;
    }
    return false;
  }

  TemporaryFolder folder;
};

TEST_F(Relaunch, ANodeThatIsGoneIsLeftOut) {
  folder.write("ends", "touch dead-node2; exit 205\nexit 0\n");
  const auto result = run(3, {.restarts = 3, .min_ranks = 2, .before_restart = [](LaunchRequest&) {
                                return "going on at step 7";
                              }});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(says(result.errors,
                   {"starting it again (restart 1 of 3): 2 ranks instead of 3 on node1:1,node3:1, "
                    "without node2 (does not answer), going on at step 7"}));
  ASSERT_EQ(starts().size(), 2U);
  EXPECT_TRUE(says(starts()[0], {"node1:1,node2:1,node3:1"}));
  EXPECT_TRUE(says(starts()[1], {"node1:1,node3:1", " -n 2 "}));
}

TEST_F(Relaunch, TooFewRanksAreTheEnd) {
  folder.write("ends", "touch dead-node2; exit 205\n");
  for (const int least : {0, 3}) {
    const auto result = run(3, {.restarts = 3, .min_ranks = least});
    EXPECT_EQ(result.exit_code, 205);
    EXPECT_THAT(
        result.errors,
        AllOf(HasSubstr("it is not restarted: without node2 (does not answer) there is room "
                        "for 2 ranks on node1:1,node3:1, but at least 3 ranks must be started"),
              Not(HasSubstr("starting it again"))));
    for (const char* name : {"starts", "dead-node2"}) std::filesystem::remove(folder / name);
  }
}

TEST_F(Relaunch, NumbersOfRanksThatAreOfNoUseAreTheEndToo) {
  folder.write("ends", "touch dead-node2; exit 205\n");
  const auto result =
      run(3, {.restarts = 3, .min_ranks = 1, .accepts = [](int ranks) { return ranks == 3; }});
  EXPECT_EQ(result.exit_code, 205);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("it is not restarted: without node2 (does not answer) there is room "
                              "for 2 ranks on node1:1,node3:1, but from 1 up there is no number of "
                              "ranks that it can go on with"),
                    Not(HasSubstr("starting it again"))));
}

TEST_F(Relaunch, ANodeWhoseRanksAreKilledTwiceIsLeftOut) {
  const std::string killed =
      "echo 'mpirun noticed that process rank 2 with PID 1 on node node3 exited on signal 9 "
      "(Killed).' >&2; exit 137\n";
  folder.write("ends", killed + killed + "exit 0\n");
  const auto result = run(3, {.restarts = 3, .min_ranks = 1});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(says(result.errors,
                   {"(restart 1 of 3): 3 ranks",
                    "2 ranks instead of 3 on node1:1,node2:1, without node3 (has failed twice)"}));
  EXPECT_EQ(starts().size(), 3U);
}

TEST_F(Relaunch, WhetherANodeFailedIsToldToWhoJudges) {
  folder.write("ends", "touch dead-node2; exit 1\nexit 1\n");
  const auto result =
      run(3, {.restarts = 3, .min_ranks = 1, .objection = [](const JobFailure& failure) {
                return failure.node_failed ? std::string() : std::string("its own fault");
              }});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(says(result.errors, {"status 1; its own fault"}));
  EXPECT_EQ(starts().size(), 2U) << "the first failure was the node's";
}

TEST_F(Relaunch, InASlurmJobAStepRunsOnTheNodesThatAreLeft) {
  folder.write("ends",
               "touch dead-node2; echo 'srun: error: Node failure on node2' >&2; exit 1\nexit 0\n");
  const auto result = run(4, {.restarts = 1, .min_ranks = 1},
                          {{"SLURM_JOB_ID", "7"},
                           {"SLURM_JOB_NODELIST", "n[1-2]"},
                           {"SLURM_JOB_NUM_NODES", "2"},
                           {"SLURM_TASKS_PER_NODE", "2(x2)"}});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  ASSERT_EQ(starts().size(), 2U);
  EXPECT_FALSE(says(starts()[0], {"--nodelist"}));
  EXPECT_TRUE(says(starts()[1], {"--ntasks=2", "--nodelist=node1 --nodes=1"}));
}

TEST_F(Relaunch, ALauncherThatFailsWithoutAWordGetsWords) {
  const std::string box = std::string(74, '-') + "\n";
  for (const auto& said : {std::string(), std::string("kolo: warning: slow\n"),
                           box + "Per user-direction, the job has been aborted.\n" + box}) {
    folder.write("said", said);
    folder.write("ends", "cat said >&2; exit 1\n");
    const auto result = run(3, {});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.errors,
                AllOf(HasSubstr("kolo: the job ended with status 1, and neither "),
                      HasSubstr("nor a rank has said why; kolo doctor"), HasSubstr("mpirun "),
                      HasSubstr(" work\n"),
                      AnyOf(HasSubstr("kolo: it is none of the usual reasons: names"),
                            HasSubstr("kolo: what may be the reason: "))));
    EXPECT_EQ(result.errors.find("mpirun wrote: Per user-direction, the job has been aborted.\n") !=
                  std::string::npos,
              said.starts_with(box))
        << result.errors;
    std::filesystem::remove(folder / "starts");
  }
}

TEST_F(Relaunch, NothingIsAddedToWhatWasSaid) {
  folder.write("ends",
               "echo 'A call to mkdir was unable to create the desired directory' >&2; exit 1\n");
  const auto result = run(3, {});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.errors, "A call to mkdir was unable to create the desired directory\n");
}

// The status is the launcher's own number, not a signal's.
TEST_F(Relaunch, AProgramThatWasNotStartedIsSaidToBe) {
  folder.write("ends",
               "echo 'mpirun was unable to launch the specified application as it could not access "
               "or execute an executable:' >&2; exit 132\nexit 0\n");
  const auto result = run(3, {.restarts = 1});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, AllOf(HasSubstr("the ranks could not be started (status 132)"),
                                   Not(HasSubstr("Illegal"))));
}

// As Open MPI ends where a host is not reached.
TEST_F(Relaunch, HostsThatAreNotReachedAreAFailureWithAdvice) {
  const std::string rule(74, '-');
  folder.write("ends", "printf '%s\\n' 'ssh: Could not resolve hostname nohost' '" + rule +
                           "' 'ORTE was unable to reliably start one or more daemons.' '" + rule +
                           "' >&2; exit 255\n");
  const auto result = run(2, {});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("hostname nohost\nkolo: the ranks could not be started "
                              "(status 255)"),
                    HasSubstr("ssh reaches"), Not(HasSubstr("ORTE"))));
}

TEST_F(Relaunch, AProgramThatIsGoneIsNotStartedAgain) {
  program("work", "#!/bin/sh\n");
  folder.write("ends", "rm bin/work; exit 137\nexit 0\n");
  LaunchRequest request{.ranks = 2,
                        .oversubscribe = true,
                        .command = {folder / "bin" / "work"},
                        .launcher = LauncherChoice::mpi};
  const auto result =
      run_in_fork([&] { return run_ranks(request, {.restarts = 2}); },
                  {.environment = {{"PATH", (folder / "bin").string() + ":/usr/bin:/bin"}}});
  EXPECT_EQ(result.exit_code, 137);
  EXPECT_TRUE(says(result.errors, {"it is not restarted: " + (folder / "bin/work").string() +
                                   ": No such file or directory"}));
  EXPECT_EQ(starts().size(), 1U);
}

// The name of the linked program tells, as packages and modules install them.
TEST_F(Relaunch, TheMpirunOfAnotherMpiIsPassedOver) {
  const auto linked = examine_machine(detect_launch_environment(), LauncherChoice::mpi).launcher;
  const bool is_mpich = linked == Launcher::mpich;
  const char* const other = is_mpich ? "orterun" : "mpiexec.hydra";
  folder.write_program(std::string("other/") + other, "#!/bin/sh\nexit 7\n");
  std::filesystem::create_symlink(other, folder / "other/mpirun");
  const auto run_with = [&](const std::string& path) {
    const LaunchRequest request{
        .ranks = 2, .oversubscribe = true, .command = {"work"}, .launcher = LauncherChoice::mpi};
    return run_in_fork([&] { return run_ranks(request, {}); }, {.environment = {{"PATH", path}}});
  };
  folder.write("ends", "exit 0\n");
  const auto others = (folder / "other").string();
  EXPECT_EQ(run_with(others + ":" + (folder / "bin").string() + ":/usr/bin:/bin").exit_code, 0);
  EXPECT_EQ(starts().size(), 1U);
  const auto refused =
      run_in_fork([&] { return has_refused(others) ? 0 : 1; }, {.environment = {{"PATH", others}}});
  EXPECT_EQ(refused.exit_code, 0) << refused.errors;
}

// The signal comes while no rank runs.
TEST_F(Relaunch, AStopBetweenTwoAttemptsIsHeard) {
  folder.write("ends", "exit 137\nexit 0\n");
  const auto result = run(3, {.restarts = 3, .before_restart = [](LaunchRequest&) {
                                ::kill(::getpid(), SIGTERM);
                                return std::string();
                              }});
  EXPECT_EQ(result.exit_code, 75) << result.errors;
  EXPECT_TRUE(says(result.errors, {"SIGTERM: stopped between two starts"}));
  EXPECT_EQ(starts().size(), 1U);
}

}  // namespace
}  // namespace kolo::testing
