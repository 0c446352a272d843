#include <fstream>
#include <map>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/run/launch_ranks.h"
#include "run/launch/launcher_output.h"
#include "run/launch/rank_output.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

MachineFacts facts(Launcher launcher, int cores,
                   std::map<std::string, std::string> environment = {}) {
  MachineFacts result;
  result.launcher = launcher;
  result.program = launcher == Launcher::srun ? "srun" : "mpirun";
  result.cpus = result.cores = cores;
  result.whole_machine = true;
  result.environment = [values = std::move(environment)](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
  return result;
}

LaunchRequest request(int ranks) {
  return {.ranks = ranks, .command = {"/bin/kolo", "train", "a file.yaml"}};
}

std::string line(const RankCommand& command) {
  return join(command.argv, " ");
}

std::string line(int ranks, const MachineFacts& machine) {
  return line(rank_command(request(ranks), machine));
}

std::string variable(const RankCommand& command, const std::string& name) {
  for (const auto& [key, value] : command.environment) {
    if (key == name) return value;
  }
  return "(not set)";
}

// Facts of a machine whose cores have two CPUs each.
MachineFacts facts_of_processes(int cores, std::map<std::string, std::string> environment = {}) {
  auto result = facts(Launcher::processes, cores, std::move(environment));
  result.cpus = 2 * cores;
  for (int core = 0; core < cores; ++core) result.cpus_of_cores.push_back({core, cores + core});
  return result;
}

TEST(RankCommand, ProcessesGetCoresOfTheirOwn) {
  const auto command = rank_command(request(2), facts_of_processes(5));
  EXPECT_EQ(command.processes, 2);
  EXPECT_EQ(line(command), "/bin/kolo train a file.yaml");
  EXPECT_EQ(variable(command, "OMP_NUM_THREADS"), "2");
  EXPECT_EQ(command.cpus, (std::vector<std::vector<int>>{{0, 5, 1, 6}, {2, 7, 3, 8}}));
  auto wish = request(6);
  EXPECT_TRUE(rank_command(wish, facts_of_processes(5)).cpus.empty()) << "they share cores";
  wish.ranks = 11;
  EXPECT_THROW((void)rank_command(wish, facts_of_processes(5)), InputError);
}

TEST(RankCommand, ProcessesAreNotBoundWhereOthersHaveTheSameCores) {
  auto limited = facts_of_processes(4);
  limited.cores = 2;  // by a quota
  EXPECT_TRUE(rank_command(request(2), limited).cpus.empty());
  // Slurm has granted fewer cores than the script sees.
  const auto in_job =
      rank_command(request(2), facts_of_processes(8, {{"SLURM_CPUS_ON_NODE", "4"}}));
  EXPECT_TRUE(in_job.cpus.empty());
  EXPECT_EQ(variable(in_job, "OMP_NUM_THREADS"), "2");
}

TEST(RankCommand, StartsTheRanksWithTheCommandAtTheEnd) {
  for (const auto launcher :
       {Launcher::open_mpi_4, Launcher::open_mpi_5, Launcher::mpich, Launcher::srun}) {
    const auto command = rank_command(request(2), facts(launcher, 4));
    EXPECT_TRUE(
        says(line(command), {launcher == Launcher::srun ? "--ntasks=2" : " -n 2 /bin/kolo"}));
    ASSERT_GE(command.argv.size(), 4U);
    EXPECT_EQ(command.argv.back(), "a file.yaml") << "one word stays one word";
    EXPECT_EQ(variable(command, "OMP_NUM_THREADS"), "2");
    EXPECT_EQ(variable(command, "OPENBLAS_NUM_THREADS"), "2");
    EXPECT_EQ(variable(command, "KOLO_TERMINAL"), "0");
  }
}

TEST(RankCommand, OpenMpiGetsSlotsAndMayRunAsRoot) {
  auto machine = facts(Launcher::open_mpi_5, 4);
  EXPECT_TRUE(says(line(3, machine), {"--host localhost:3", "--mca btl ^tcp,ofi"}));
  EXPECT_FALSE(says(line(3, machine), {"root"}));
  machine.is_root = true;
  EXPECT_TRUE(says(line(3, machine), {"--allow-run-as-root"}));
  machine.launcher = Launcher::mpich;
  EXPECT_FALSE(says(line(3, machine), {"root"}));
}

TEST(RankCommand, BindsEvenSharesOfAWholeMachineOnly) {
  auto machine = facts(Launcher::open_mpi_4, 8);
  EXPECT_TRUE(says(line(2, machine), {"--map-by slot:PE=4 --bind-to core:if-supported"}));
  EXPECT_TRUE(says(line(3, machine), {"slot:PE=2"}));
  machine.whole_machine = false;
  EXPECT_TRUE(says(line(2, machine), {"--bind-to none"}));
  machine = facts(Launcher::open_mpi_4, 8);
  machine.cpus = 16;  // two hardware threads per core
  EXPECT_TRUE(says(line(9, machine), {"--bind-to none"}));
}

TEST(RankCommand, MoreRanksThanCpusAreAskedForExplicitly) {
  const auto machine = facts(Launcher::open_mpi_4, 2);
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)rank_command(request(3), machine); }),
                   {"-n 3", "--oversubscribe"}));
  auto wish = request(3);
  wish.oversubscribe = true;
  const auto command = rank_command(wish, machine);
  EXPECT_TRUE(says(line(command), {"--bind-to none --mca mpi_yield_when_idle 1"}));
  EXPECT_EQ(variable(command, "OMP_NUM_THREADS"), "1");
  EXPECT_THROW((void)rank_command(request(0), machine), InputError);
}

TEST(RankCommand, TheUsersThreadsCount) {
  const auto machine = facts(Launcher::open_mpi_4, 8, {{"OMP_NUM_THREADS", "3"}});
  EXPECT_EQ(threads_per_rank(request(2), machine), 3);
  const auto threads_of = [](const char* text) {
    return threads_per_rank(request(2),
                            facts(Launcher::open_mpi_4, 8, {{"OMP_NUM_THREADS", text}}));
  };
  EXPECT_EQ(threads_of(" 3 , 2"), 3) << "OpenMP's syntax";
  EXPECT_EQ(threads_of(" "), 4) << "as if it were not set";
  for (const char* const text : {"abc", "0", "-3", "3x", "1025"})
    EXPECT_THROW((void)threads_of(text), InputError) << text;
  auto wish = request(2);
  wish.threads = 5;
  EXPECT_EQ(threads_per_rank(wish, machine), 5) << "the configuration before the environment";
  const auto limited =
      facts(Launcher::open_mpi_4, 8, {{"OMP_THREAD_LIMIT", "2"}, {"OMP_NUM_THREADS", "3"}});
  EXPECT_EQ(threads_per_rank(request(1), limited), 2);
  EXPECT_EQ(threads_per_rank(wish, limited), 2);
  const auto own =
      rank_command(request(2), facts(Launcher::open_mpi_4, 8, {{"OPENBLAS_NUM_THREADS", "1"}}));
  EXPECT_EQ(variable(own, "OMP_NUM_THREADS"), "4");
  EXPECT_EQ(variable(own, "OPENBLAS_NUM_THREADS"), "(not set)") << "the user's stays";
}

TEST(RankCommand, SlurmJudgesItsOwnAllocation) {
  const auto machine = facts(Launcher::srun, 2, {{"SLURM_JOB_NUM_NODES", "4"}});
  auto wish = request(8);
  const auto command = rank_command(wish, machine);
  EXPECT_TRUE(says(line(command), {"--mpi=pmix"}));
  EXPECT_EQ(variable(command, "OMP_NUM_THREADS"), "1") << "two ranks on each of four nodes";
  EXPECT_FALSE(says(line(command), {"--overcommit"}));
  wish.oversubscribe = true;
  EXPECT_TRUE(says(line(rank_command(wish, machine)), {"--overcommit"}));
  EXPECT_EQ(threads_per_rank(wish, facts(Launcher::srun, 2, {{"SLURM_CPUS_PER_TASK", "6"}})), 6);
  const auto shared_node = facts(Launcher::srun, 64, {{"SLURM_CPUS_ON_NODE", "16"}});
  EXPECT_EQ(threads_per_rank(wish, shared_node), 2) << "not the whole node, but the job's share";
}

// Containers without --shm-size have little shared memory.
TEST(RankCommand, WithoutRoomForSharedMemoryMessagesGoThroughTheMachinesOwnInterface) {
  auto machine = facts(Launcher::open_mpi_4, 4);
  machine.shared_memory_room = 8 << 20;
  EXPECT_TRUE(says(line(1, machine), {"--mca btl ^tcp,ofi"}));
  EXPECT_TRUE(says(line(2, machine), {"--mca btl self,tcp --mca btl_tcp_if_include lo"}));
}

// MPI would end the ranks, or hang.
TEST(RankCommand, ALimitOfFilesSizesThatLeavesNoSharedMemoryIsRefused) {
  auto machine = facts(Launcher::open_mpi_4, 4);
  machine.file_size_limit = 500 * 1024;
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)rank_command(request(2), machine); }),
                   {"larger than 512000 bytes", "ulimit -f unlimited"}));
  machine.file_size_limit = 64 << 20;
  EXPECT_NO_THROW((void)rank_command(request(2), machine));
}

TEST(RankCommand, ALauncherGetsWhatItCannotDoWithout) {
  auto machine = facts(Launcher::open_mpi_4, 4, {{"PATH", "/opt/bin"}});
  EXPECT_EQ(variable(rank_command(request(2), machine), "PATH"), "(not set)") << "the user's stays";
  EXPECT_EQ(variable(rank_command(request(2), machine), "HOME"), "(not set)");
  machine = facts(Launcher::open_mpi_4, 4);
  machine.has_home = false;
  EXPECT_EQ(variable(rank_command(request(2), machine), "PATH"), "/usr/bin:/bin");
  EXPECT_NE(variable(rank_command(request(2), machine), "HOME"), "(not set)");
}

TEST(RankCommand, LaunchersLookNoNamesUpForDisplays) {
  const auto components = [](Launcher launcher, std::map<std::string, std::string> environment) {
    return variable(rank_command(request(2), facts(launcher, 4, std::move(environment))),
                    "HWLOC_COMPONENTS");
  };
  EXPECT_EQ(components(Launcher::open_mpi_4, {}), "-gl");
  EXPECT_EQ(components(Launcher::open_mpi_5, {}), "-gl");
  EXPECT_EQ(components(Launcher::mpich, {}), "-gl");
  EXPECT_EQ(components(Launcher::srun, {}), "(not set)") << "it has nothing to do with hwloc";
  EXPECT_EQ(components(Launcher::open_mpi_4, {{"HWLOC_COMPONENTS", "x86"}}), "(not set)")
      << "the user's stays";
}

// A bound rank's program may bind its threads.
TEST(RankCommand, OpenMpBindsNothingWhereRanksHaveTheSameCpus) {
  auto machine = facts(Launcher::open_mpi_4, 4, {{"KOLO_OMP_PROC_BIND_BEFORE", "close"}});
  const auto before = [&](int ranks) {
    return variable(rank_command(request(ranks), machine), "KOLO_OMP_PROC_BIND_BEFORE");
  };
  EXPECT_EQ(before(2), "(not set)") << "the user's stays";
  machine.whole_machine = false;
  EXPECT_EQ(before(2), "false");
  EXPECT_EQ(before(1), "(not set)");
}

TEST(RankCommand, RanksThatStopTogetherAreNotKilledForIt) {
  auto wish = request(2);
  EXPECT_TRUE(says(line(rank_command(wish, facts(Launcher::srun, 4))), {"--kill-on-bad-exit=1"}));
  wish.end_together = true;
  EXPECT_TRUE(
      says(line(rank_command(wish, facts(Launcher::srun, 4))), {"--kill-on-bad-exit=0 --wait=10"}));
}

TEST(RankCommand, APbsJobsNodesGetEvenShares) {
  auto machine = facts(Launcher::open_mpi_4, 4);
  machine.job_hosts = {{"a", 1}, {"b", 1}};
  const auto command = rank_command(request(3), machine);
  EXPECT_TRUE(says(line(command), {"--host a:2,b:1", "-x OMP_NUM_THREADS"}));
  EXPECT_EQ(variable(command, "OMP_NUM_THREADS"), "2") << "of the fuller node";
  EXPECT_TRUE(says(line(1, machine), {"--host a:1"}));
  EXPECT_NO_THROW((void)rank_command(request(8), machine));
  EXPECT_THROW((void)rank_command(request(9), machine), InputError);
  machine.launcher = Launcher::mpich;
  EXPECT_TRUE(says(line(4, machine), {"-hosts a:2,b:2"}));
}

TEST(RankCommand, PalsKnowsTheNodesAndIsToldHowManyOnEach) {
  auto machine = facts(Launcher::pals, 8);
  machine.program = "/opt/pals/bin/mpiexec";
  machine.job_hosts = {{"a", 1}, {"b", 1}};
  const auto command = rank_command(request(4), machine);
  EXPECT_TRUE(says(line(command), {"/opt/pals/bin/mpiexec -n 4 --ppn 2 --depth 4 --cpu-bind depth",
                                   "--env OMP_NUM_THREADS=4"}));
  EXPECT_FALSE(says(line(command), {"--host"}));
}

// Message that Open MPI writes between two lines of dashes.
std::string box(const std::string& text) {
  const std::string rule(74, '-');
  return rule + "\n" + text + "\n" + rule + "\n";
}

TEST(LauncherOutput, DropsOnlyBoxesThatRepeatAFailure) {
  const std::string failure = box(
      "prterun detected that one or more processes exited with non-zero status,\nthus causing the "
      "job to be terminated.\n\n   Exit code:    3");
  const std::string other = box("There are not enough slots available");
  const std::string text = "kolo: rank 1: no\n" + failure + other + "the end without newline";
  for (const std::size_t piece : {text.size(), std::size_t{1}, std::size_t{7}}) {
    LauncherOutput noise;
    std::string shown;
    for (std::size_t at = 0; at < text.size(); at += piece)
      shown += noise.filter(std::string_view(text).substr(at, piece));
    shown += noise.finish();
    EXPECT_EQ(shown, "kolo: rank 1: no\n" + other + "the end without newline");
  }
}

// Nothing else may tell of the killed rank.
TEST(LauncherOutput, KeepsWhatNamesAKilledRankThatNobodyElseHasNamed) {
  const auto killed =
      box("mpirun noticed that process rank 1 with PID 0 on node n2 exited on signal 9 (Killed).");
  const std::string named = "kolo: watch: rank 1 is gone: it was killed; the job ends\n";
  EXPECT_EQ(LauncherOutput().filter(killed), killed);
  for (const std::string said :
       {"kolo: warning: slow\n", "kolo: watch: ranks have waited 60.0 s in all-reduce 7\n"})
    EXPECT_EQ(LauncherOutput().filter(said + killed), said + killed);
  EXPECT_EQ(LauncherOutput().filter(named + killed), named);
  LauncherOutput asked;
  asked.expect_signals();
  EXPECT_EQ(asked.filter(killed), "");
}

TEST(LauncherOutput, KnowsWhetherAnythingWasSaid) {
  const std::string silent =
      "kolo: warning: slow\n" + box("Per user-direction, the job has been aborted.") +
      "[n1:7] 1 more process has sent help message help-mpi-api.txt / mpi-abort\n"
      "[n1:7] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all help / error "
      "messages\n"
      "[n1:7] [[1,0],0] ORTE_ERROR_LOG: Out of resource in file ../orte/util/show_help.c at line "
      "501\n";
  LauncherOutput noise;
  EXPECT_EQ(noise.filter(silent), "kolo: warning: slow\n");
  EXPECT_TRUE(noise.was_silent());
  EXPECT_EQ(noise.filter("no"), "");
  EXPECT_EQ(noise.finish(), "no");
  EXPECT_FALSE(noise.was_silent());
  LauncherOutput other;
  (void)other.filter(box("There are not enough slots available"));
  EXPECT_FALSE(other.was_silent());
}

TEST(LauncherOutput, KeepsABoxThatNeverCloses) {
  const std::string text = std::string(74, '-') + "\nMPI_ABORT was invoked\n";
  LauncherOutput noise;
  EXPECT_EQ(noise.filter(text), "");
  EXPECT_EQ(noise.finish(), text);
}

std::string line(Launcher launcher, int ranks, const std::string& hosts) {
  auto wish = request(ranks);
  wish.hosts = parse_hosts(hosts);
  return line(rank_command(wish, facts(launcher, 4)));
}

TEST(Hosts, AreNamesWithSlots) {
  const std::vector<Host> expected = {{"a", 2}, {"b.example", 1}};
  EXPECT_EQ(parse_hosts("a:2,b.example"), expected);
  EXPECT_EQ(parse_hosts(to_string(expected)), expected);
  EXPECT_EQ(total_slots(expected), 3);
  EXPECT_EQ(most_slots(expected), 2);
}

TEST(Hosts, WrongOnesAreNamed) {
  for (const auto* text : {"", "a,", ":2", "a:", "a:0", "a:-1", "a:2x", "a:99999999999"}) {
    EXPECT_THROW((void)parse_hosts(text), InputError) << text;
  }
}

TEST(Hosts, ComeFromAFileInEitherWayOfWriting) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "hosts";
  std::ofstream(file) << "# ours\na:2\n\nb slots=3  # slow\nc\na\nc\n";
  EXPECT_EQ(to_string(read_hostfile(file)), "a:3,b:3,c:2");
  for (const auto* text : {"", "# none\n", "a cores=2\n", "a slots=2 more\n", "a slots=\n"}) {
    std::ofstream(file, std::ios::trunc) << text;
    EXPECT_THROW((void)read_hostfile(file), InputError) << text;
  }
  EXPECT_THROW((void)read_hostfile(folder.path() / "none"), InputError);
}

TEST(Hosts, GetEvenShares) {
  const std::vector<Host> hosts = {{"a", 1}, {"b", 8}, {"c", 1}};
  EXPECT_EQ(to_string(spread_evenly(hosts, 8)), "a:3,b:3,c:2");
  EXPECT_EQ(to_string(spread_evenly(hosts, 2)), "a:1,b:1");
  for (const int ranks : {1, 2, 3, 7, 100})
    EXPECT_EQ(total_slots(spread_evenly(hosts, ranks)), ranks);
}

TEST(Hosts, ReachEveryLauncher) {
  for (const auto launcher : {Launcher::open_mpi_4, Launcher::open_mpi_5}) {
    const auto command = line(launcher, 4, "a:2,b:2");
    EXPECT_TRUE(says(command, {"--host a:2,b:2"}));
    EXPECT_FALSE(says(command, {"^tcp"})) << "hosts reach each other by it";
    EXPECT_TRUE(says(command, {"slot:PE=2"})) << "a host's share of its cores";
  }
  EXPECT_TRUE(says(line(Launcher::mpich, 4, "a:2,b:2"), {"-hosts a:2,b:2"}));
  const auto srun = line(Launcher::srun, 4, "a:2,b:2");
  EXPECT_TRUE(says(srun, {"--nodelist=a,b --nodes=2 --ntasks-per-node=2"}));
  EXPECT_THROW((void)line(Launcher::mpich, 5, "a:2,b:2"), InputError) << "more than the slots";
}

TEST(LineTagger, TagsWholeLinesHoweverTheyArrive) {
  const std::string text = "first\n\nsecond line\nlast";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    LineTagger tagger(3);
    std::string shown;
    for (std::size_t i = 0; i < text.size(); i += size) shown += tagger.add(text.substr(i, size));
    shown += tagger.finish();
    EXPECT_EQ(shown, "[3] first\n[3] \n[3] second line\n[3] last\n") << size;
    EXPECT_EQ(tagger.finish(), "");
  }
}

}  // namespace
}  // namespace kolo::testing
