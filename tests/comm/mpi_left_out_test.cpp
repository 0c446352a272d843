// The communicator of an MPI job in a build without MPI.
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include <gmock/gmock.h>

#include "kolo/comm/mpi.h"
#include "kolo/comm/processes.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// Calls a function while these variables, and no other launcher's, are set.
void with_variables(const std::map<std::string, std::string>& variables,
                    const std::function<void()>& function) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  function();
  for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
}

TEST(MpiLeftOut, AProcessThatNobodyStartedIsOneRank) {
  const auto communicator = mpi_communicator();
  EXPECT_EQ(communicator.size(), 1);
  EXPECT_FALSE(communicator.is_checked());
  EXPECT_TRUE(mpi_communicator({.checked = true}).is_checked());
  EXPECT_EQ(job_communicator().size(), 1);
  EXPECT_EQ(mpi_library_version(), "");
}

TEST(MpiLeftOut, RanksOfALauncherAreRefusedWithAWayOut) {
  const std::map<std::string, std::string> mpirun = {{"OMPI_COMM_WORLD_RANK", "0"},
                                                     {"OMPI_COMM_WORLD_SIZE", "2"}};
  with_variables(mpirun, [] {
    EXPECT_TRUE(says(message_of<WrongLauncher>([] { (void)job_communicator(); }),
                     {"Open MPI's mpirun has started 2 processes", "built without MPI",
                      "kolo's own option -n", "KOLO_MPI=ON"}));
    EXPECT_EQ(mpi_communicator({.launcher_check = false}).size(), 1);
  });
  with_variables({{"PALS_RANKID", "0"}}, [] {
    EXPECT_TRUE(says(message_of<WrongLauncher>([] { (void)mpi_communicator(); }),
                     {"PALS' mpiexec has started several processes"}));
  });
}

TEST(MpiLeftOut, ALauncherOfOneProcessHasStartedOneRank) {
  with_variables({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}},
                 [] { EXPECT_EQ(mpi_communicator().size(), 1); });
}

}  // namespace
}  // namespace kolo::testing
