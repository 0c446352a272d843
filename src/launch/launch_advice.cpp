#include "launch/launch_advice.h"

#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// What starts ranks of this MPI.
std::string right_launcher(const LaunchEnvironment& environment, const LinkedMpi& mpi) {
  if (environment.started_by == StartedBy::srun) {
    return fmt::format(
        "use srun --mpi={} (srun --mpi=list shows what this Slurm has), or kolo's own option "
        "-n {} in the job's script, without srun",
        mpi.is_open_mpi ? "pmix" : "pmi2", environment.size);
  }
  return fmt::format(
      "use kolo's own option -n {}, or {} of {} (in Debian the package {}; {} where several are "
      "installed)",
      environment.size, mpi.is_open_mpi ? "mpirun" : "mpiexec",
      mpi.is_open_mpi ? "Open MPI" : "MPICH", mpi.is_open_mpi ? "openmpi-bin" : "mpich",
      mpi.is_open_mpi ? "mpirun.openmpi" : "mpiexec.mpich");
}

std::string_view option_of(SlurmMpi slurm_mpi) {
  switch (slurm_mpi) {
    case SlurmMpi::pmix:
      return "--mpi=pmix";
    case SlurmMpi::pmi2:
      return "--mpi=pmi2";
    case SlurmMpi::none:
      break;
  }
  return "--mpi=none";
}

}  // namespace

LinkedMpi parse_mpi_version(const std::string& version) {
  LinkedMpi mpi;
  mpi.is_open_mpi = version.find("Open MPI") != std::string::npos;
  mpi.name = version.substr(0, version.find_first_of(",\n"));
  // "MPICH Version:      4.0.2"
  if (const auto label = mpi.name.find(" Version:"); label != std::string::npos) {
    const auto number = mpi.name.find_first_not_of(" \t", label + 9);
    mpi.name = mpi.name.substr(0, label) +
               (number == std::string::npos ? "" : ' ' + mpi.name.substr(number));
  }
  return mpi;
}

void require_suitable_launcher(const LaunchEnvironment& environment, const LinkedMpi& mpi,
                               bool insist) {
  if (environment.started_by == StartedBy::torchrun) {
    throw InputError(fmt::format(
        "RANK and WORLD_SIZE say that torchrun or its like has started {} processes, but they are "
        "not connected: kolo's ranks are those of MPI ({}); {}. Where the variables are only left "
        "over: env -u RANK -u WORLD_SIZE kolo ...",
        environment.size, mpi.name, right_launcher(environment, mpi)));
  }
  if (environment.started_by != StartedBy::srun || !mpi.is_open_mpi) return;
  const auto how = environment.slurm_mpi;
  // An Open MPI 4 built with Slurm's own PMI understands pmi2, too; Debian's is not.
  if (how == SlurmMpi::pmix || (how == SlurmMpi::pmi2 && insist)) return;
  throw InputError(
      fmt::format("Slurm's srun has started {} process{}, but not connected them for {}, which "
                  "takes PMIx: this "
                  "was srun {}; {}",
                  environment.size, environment.size == 1 ? "" : "es", mpi.name, option_of(how),
                  right_launcher(environment, mpi)));
}

void require_all_ranks(const LaunchEnvironment& environment, const LinkedMpi& mpi, int size) {
  if (!environment.size_is_known || environment.size == size) return;
  const auto seen = size == 1 ? std::string("each is alone in MPI")
                              : fmt::format("MPI connects {} of them only", size);
  throw InputError(
      fmt::format("{} has started {} processes, but {}: this kolo uses {}, which does not know "
                  "that launcher{}; "
                  "{}",
                  environment.launcher, environment.size, seen, mpi.name,
                  environment.started_by == StartedBy::srun
                      ? fmt::format(" with {}", option_of(environment.slurm_mpi))
                      : "",
                  right_launcher(environment, mpi)));
}

}  // namespace kolo
