// Failures of nodes, and the hosts of the ranks after them.
#include "run/launch/job_nodes.h"

#include "kolo/base/text.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::UnorderedElementsAre;

bool any(int) {
  return true;
}

HostsInTrouble read(const std::string& text, std::size_t piece = 7) {
  LauncherOutput output;
  for (std::size_t at = 0; at < text.size(); at += piece)
    (void)output.filter(std::string_view(text).substr(at, piece));
  return output.hosts();
}

TEST(LauncherOutput, TellWhereARankWasEndedFromOutside) {
  for (const std::string text :
       {"mpirun noticed that process rank 1 with PID 24493 on node n2 exited on signal 9 "
        "(Killed).\n",
        "prterun noticed that process rank 1 with PID 7 on node n2 exited on signal 9 (Killed).\n",
        "=   PID 27535 RUNNING AT n2\n=   EXIT CODE: 9\n=   CLEANING UP\n"
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n",
        "srun: error: n2: task 1: Killed\nsrun: error: n1: task 0: Killed\n",
        "n2: rank 3 died from signal 9\nn1: rank 0 died from signal 15\n"}) {
    EXPECT_EQ(read(text).rank_killed, "n2") << text;
    EXPECT_THAT(read(text).lost, IsEmpty());
  }
}

TEST(LauncherOutput, WhatAProgramDoesToItselfIsNoNodesFault) {
  for (const std::string text :
       {"mpirun noticed that process rank 1 with PID 24493 on node n2 exited on signal 11 "
        "(Segmentation fault).\n",
        "=   PID 27535 RUNNING AT n2\n=   EXIT CODE: 1\n",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n",
        "srun: error: n2: task 1: Exited with exit code 1\n",
        "srun: error: n[1-2]: tasks 0-1: Killed\n",
        "srun: error: n2: task 1: Segmentation fault\n"})
    EXPECT_EQ(read(text).rank_killed, "") << text;
}

TEST(LauncherOutput, TellWhichNodeIsLost) {
  EXPECT_THAT(read("ORTE has lost communication with a remote daemon.\n\n"
                   "  HNP daemon   : [[31281,0],0] on node n1\n"
                   "  Remote daemon: [[31281,0],1] on node n2\n")
                  .lost,
              UnorderedElementsAre("n2"));
  EXPECT_THAT(read("srun: error: Node failure on n3\n").lost, UnorderedElementsAre("n3"));
}

TEST(JobNodes, OneThatDoesNotAnswerIsLeftOutUntilItDoes) {
  JobNodes nodes({{"a", 2}, {"b", 2}, {"c", 2}});
  EXPECT_TRUE(nodes.next_ranks(4, 4, any).hosts.empty()) << "nothing has happened yet";
  EXPECT_TRUE(nodes.note_failure({}, {"b"}));
  EXPECT_EQ(to_string(nodes.next_ranks(4, 4, any).hosts), "a:2,c:2") << "they fit";
  EXPECT_EQ(nodes.describe_left_out(), "b (does not answer)");
  EXPECT_FALSE(nodes.note_failure({}, {"b"})) << "it was not there, so it has not failed again";
  EXPECT_EQ(nodes.candidates().size(), 3U) << "it is asked again";
  EXPECT_FALSE(nodes.note_failure({}, {}));
  EXPECT_TRUE(nodes.next_ranks(6, 6, any).hosts.empty()) << "it is back";
}

TEST(JobNodes, OneThatHasFailedTwiceIsLeftOutForGood) {
  JobNodes nodes({{"a.cluster", 2}, {"b.cluster", 2}});
  const HostsInTrouble killed_on_b{.lost = {}, .rank_killed = "b"};
  EXPECT_TRUE(nodes.note_failure(killed_on_b, {}));
  EXPECT_EQ(nodes.left().size(), 2U) << "once can be chance";
  EXPECT_TRUE(nodes.note_failure(killed_on_b, {}));
  EXPECT_EQ(to_string(nodes.left()), "a.cluster:2");
  EXPECT_EQ(nodes.candidates().size(), 1U);
  EXPECT_EQ(nodes.describe_left_out(), "b.cluster (has failed twice)");
  EXPECT_FALSE(nodes.note_failure({.lost = {"elsewhere"}, .rank_killed = {}}, {}));
}

// A launcher that can't start anything on b, and twice not on a.
TEST(SilentHosts, AreAskedAgainOneAtATime) {
  const TemporaryFolder folder;
  folder.write("launcher",
               "#!/bin/sh\n"
               "cd \"$(dirname \"$0\")\"\n"
               "echo \"$*\" >>calls\n"
               "case \"$*\" in *b:1*) exit 1 ;; esac\n"
               "[ -e failed ] && exit 0\n"
               ": >failed\n"
               "exit 1\n");
  const auto launcher = folder.path() / "launcher";
  std::filesystem::permissions(launcher, std::filesystem::perms::owner_all);
  MachineFacts facts;
  facts.program = launcher;
  EXPECT_EQ(find_silent_hosts({{"a", 2}, {"b", 2}}, facts), std::set<std::string>{"b"});
  EXPECT_EQ(find_silent_hosts({{"a", 2}}, facts), std::set<std::string>{});
}

TEST(JobNodes, LostAndSilentInOneAttemptIsOneFailure) {
  JobNodes nodes({{"a", 1}, {"b", 1}});
  EXPECT_TRUE(nodes.note_failure({.lost = {"b"}, .rank_killed = "b"}, {"b"}));
  EXPECT_FALSE(nodes.note_failure({}, {}));
  EXPECT_EQ(nodes.left().size(), 2U);
}

TEST(JobNodes, FewerRanksThanBeforeButNotFewerThanWanted) {
  JobNodes nodes({{"a", 2}, {"b", 2}, {"c", 2}});
  (void)nodes.note_failure({}, {"a"});
  const auto next_ranks = nodes.next_ranks(6, 2, any);
  EXPECT_EQ(next_ranks.ranks, 4);
  EXPECT_EQ(to_string(next_ranks.hosts), "b:2,c:2");
  EXPECT_EQ(nodes.next_ranks(6, 5, any).ranks, 0);
  const auto three = nodes.next_ranks(6, 2, [](int ranks) { return ranks % 3 == 0; });
  EXPECT_EQ(three.ranks, 3) << "what the run can be shared by";
  EXPECT_EQ(to_string(three.hosts), "b:2,c:1");
  (void)nodes.note_failure({}, {"a", "b", "c"});
  EXPECT_EQ(nodes.next_ranks(6, 1, any).ranks, 0) << "none is left";
}

TEST(JobNodes, OneNodeHasNobodyToBlame) {
  JobNodes none, one({{"a", 2}});
  EXPECT_FALSE(one.are_several());
  EXPECT_FALSE(one.note_failure({.lost = {"a"}, .rank_killed = "a"}, {"a"}));
  EXPECT_FALSE(none.note_failure({.lost = {"a"}, .rank_killed = "a"}, {}));
}

TEST(JobNodes, AreThoseThatWereGivenOrTheSchedulers) {
  MachineFacts facts;
  facts.environment = [](const char*) { return std::nullopt; };
  LaunchRequest request{.ranks = 4};
  EXPECT_THAT(nodes_of_job(request, facts), IsEmpty());
  request.hosts = {{"a", 4}, {"b", 3}};
  EXPECT_EQ(to_string(nodes_of_job(request, facts)), "a:4,b:3");
  request.hosts.clear();
  facts.launcher = Launcher::pals;
  facts.job_hosts = {{"a", 1}, {"b", 1}, {"c", 1}};
  EXPECT_EQ(to_string(nodes_of_job(request, facts)), "a:2,b:2,c:2") << "as the first attempt has";
}

TEST(JobNodes, AreTriedByTheLauncherOfTheRanks) {
  MachineFacts facts;
  const auto words = [&](Launcher launcher) {
    facts.launcher = launcher;
    return join(trial_command({{"a", 4}, {"b", 2}}, facts).argv, " ");
  };
  EXPECT_TRUE(says(words(Launcher::open_mpi_4), {"--host a:1,b:1 ", " -n 2 ", " true"}));
  EXPECT_TRUE(says(words(Launcher::mpich), {"-hosts a:1,b:1 -n 2 true"}));
  EXPECT_TRUE(says(words(Launcher::pals), {"-n 2 --ppn 1 ", " --hosts a,b true"}));
  EXPECT_TRUE(
      says(words(Launcher::srun), {"--overlap --mem=0", "--ntasks=2", "--nodelist=a,b --nodes=2"}));
}

}  // namespace
}  // namespace kolo::testing
