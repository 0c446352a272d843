#include "kolo/run/launch_ranks.h"

#include <fstream>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "run/launch/rank_output.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

std::string line(Launcher launcher, int ranks, const std::string& hosts) {
  MachineFacts facts;
  facts.launcher = launcher;
  facts.program = "mpirun";
  facts.cpus = facts.cores = 4;
  facts.whole_machine = true;
  facts.environment = [](const char*) { return std::optional<std::string>(); };
  const LaunchRequest request{
      .ranks = ranks, .command = {"./program"}, .hosts = parse_hosts(hosts)};
  return join(rank_command(request, facts).argv, " ");
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
  std::ofstream(file) << "# ours\na:2\n\nb slots=3  # slow\nc\n";
  EXPECT_EQ(to_string(read_hostfile(file)), "a:2,b:3,c:1");
  for (const auto* text : {"", "# none\n", "a cores=2\n", "a slots=2 more\n", "a slots=\n"}) {
    std::ofstream(file, std::ios::trunc) << text;
    EXPECT_THROW((void)read_hostfile(file), InputError) << text;
  }
  EXPECT_THROW((void)read_hostfile(folder.path() / "none"), InputError);
}

TEST(Hosts, OfASchedulersFileHaveALineForEachSlot) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "nodes";
  std::ofstream(file) << "b.example\na\nb.example\nb.example\n";
  EXPECT_EQ(to_string(read_nodefile(file)), "b.example:3,a:1");
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
