#include "kolo/comm/launcher.h"

#include <cstdlib>

#include <gmock/gmock.h>

#include "comm/job.h"
#include "kolo/base/error.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

const LinkedMpi open_mpi{true, "Open MPI v4.1.4"};
const LinkedMpi mpich{false, "MPICH 4.0.2"};

LaunchEnvironment started(StartedBy by, int size, SlurmMpi slurm_mpi = SlurmMpi::none) {
  LaunchEnvironment environment;
  environment.started_by = by;
  environment.launcher = name_of(by);
  environment.variables = "RANK_OF=0, SIZE_OF=7";
  environment.size = size;
  environment.slurm_mpi = slurm_mpi;
  return environment;
}

template <typename Function>
std::string complaint(Function function) {
  try {
    function();
  } catch (const InputError& error) {
    return error.what();
  }
  return "(none)";
}

TEST(LauncherAdvice, NamesTheLinkedMpi) {
  EXPECT_EQ(parse_mpi_version("Open MPI v4.1.4, package: Debian Open MPI, ident: 4.1.4").name,
            "Open MPI v4.1.4");
  const auto parsed = parse_mpi_version("MPICH Version:      4.0.2\nMPICH Release date: Thu\n");
  EXPECT_EQ(parsed.name, "MPICH 4.0.2");
  EXPECT_FALSE(parsed.is_open_mpi);
  EXPECT_EQ(parse_mpi_version("").name, "");
}

TEST(LauncherAdvice, OpenMpiUnderSrunTakesPmix) {
  const auto check = [](SlurmMpi slurm_mpi, const LinkedMpi& mpi) {
    return complaint(
        [&] { require_suitable_launcher(started(StartedBy::srun, 4, slurm_mpi), mpi); });
  };
  EXPECT_EQ(check(SlurmMpi::pmix, open_mpi), "(none)");
  EXPECT_TRUE(says(check(SlurmMpi::none, open_mpi),
                   {"Slurm's srun has started 4 processes", "Open MPI v4.1.4", "--mpi=none",
                    "use srun --mpi=pmix"}));
  EXPECT_TRUE(says(check(SlurmMpi::pmi2, open_mpi), {"--mpi=pmi2", "KOLO_LAUNCHER_CHECK=off"}));
  EXPECT_EQ(check(SlurmMpi::pmi2, mpich), "(none)");
}

TEST(LauncherAdvice, OneTaskOfSrunsNeedsNobody) {
  const auto alone = started(StartedBy::srun, 1);
  EXPECT_TRUE(is_alone_under_srun(alone));
  EXPECT_NO_THROW(require_suitable_launcher(alone, open_mpi));
  EXPECT_FALSE(is_alone_under_srun(started(StartedBy::srun, 2)));
  EXPECT_FALSE(is_alone_under_srun(started(StartedBy::srun, 1, SlurmMpi::pmix)));
}

TEST(LauncherAdvice, TorchrunStartsNoRanks) {
  const auto text =
      complaint([] { require_suitable_launcher(started(StartedBy::torchrun, 2), open_mpi); });
  EXPECT_TRUE(says(text, {"torchrun", "RANK_OF=0", "-n 2", "openmpi-bin", "env -u RANK",
                          "KOLO_LAUNCHER_CHECK=off"}));
}

TEST(LauncherAdvice, TheLauncherOfTheOtherMpiLeavesRanksAlone) {
  const auto check = [](const LaunchEnvironment& environment, const LinkedMpi& mpi, int size) {
    return complaint([&] { require_all_ranks(environment, mpi, size); });
  };
  EXPECT_EQ(check(started(StartedBy::open_mpi, 2), open_mpi, 2), "(none)");
  EXPECT_TRUE(says(
      check(started(StartedBy::mpich, 2), open_mpi, 1),
      {"MPICH's mpiexec has started 2 processes (RANK_OF=0, SIZE_OF=7), but each "
       "is alone in MPI",
       "Open MPI v4.1.4", "mpirun.openmpi", "kolo run -n 2 PROGRAM", "KOLO_LAUNCHER_CHECK=off"}));
  EXPECT_TRUE(says(check(started(StartedBy::open_mpi, 2), mpich, 1), {"mpiexec.mpich"}));
  EXPECT_TRUE(says(check(started(StartedBy::srun, 4, SlurmMpi::pmix), mpich, 1),
                   {"with --mpi=pmix", "use srun --mpi=pmi2"}));
  auto unknown = started(StartedBy::pals, 1);
  unknown.size_is_known = false;
  EXPECT_EQ(check(unknown, mpich, 64), "(none)") << "MPI is the truth";
  unknown.rank = 3;
  EXPECT_TRUE(says(check(unknown, mpich, 1), {"several processes"})) << "there is no rank 3";
  EXPECT_EQ(check(started(StartedBy::mpich, 1), open_mpi, 4), "(none)") << "the inner launcher's";
  EXPECT_EQ(check({}, open_mpi, 1), "(none)");
}

TEST(JobEnvironment, NonsenseIsRefusedBeforeAnythingStarts) {
  const auto refusal = [](const char* name, const char* value) {
    ::setenv(name, value, 1);
    const auto text = complaint([] { (void)with_environment({}); });
    ::unsetenv(name);
    return text;
  };
  EXPECT_TRUE(says(refusal("KOLO_LAUNCHER_CHECK", "maybe"),
                   {"KOLO_LAUNCHER_CHECK is \"maybe\"; expected on, off"}));
  EXPECT_TRUE(says(refusal("KOLO_WATCH_LIMIT", "soon"),
                   {"KOLO_WATCH_LIMIT is \"soon\"; expected seconds"}));
}

}  // namespace
}  // namespace kolo::testing
