// Ranks that only a launcher of MPI could start, in a build without MPI.
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/run/launch_ranks.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

TEST(LaunchWithoutMpi, RanksOfThisMachineAreProcesses) {
  EXPECT_EQ(examine_machine({}).launcher, Launcher::processes);
  EXPECT_EQ(examine_machine({}, LauncherChoice::processes).launcher, Launcher::processes);
}

TEST(LaunchWithoutMpi, HostsAndTheLauncherOfMpiAreRefused) {
  for (const auto& [choice, hosts] :
       {std::pair(LauncherChoice::mpi, false), std::pair(LauncherChoice::automatic, true),
        std::pair(LauncherChoice::mpi, true)}) {
    EXPECT_TRUE(says(message_of<InputError>([&, choice = choice, hosts = hosts] {
                       (void)examine_machine({}, choice, hosts);
                     }),
                     {"built without MPI", "--launcher processes", "KOLO_MPI=ON"}));
  }
}

}  // namespace
}  // namespace kolo::testing
