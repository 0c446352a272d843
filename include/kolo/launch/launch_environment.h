#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "kolo/base/error.h"

namespace kolo {

// Who started this process as one of several.
enum class StartedBy : std::uint8_t {
  nobody,
  open_mpi,  // mpirun of Open MPI
  mpich,     // mpiexec of MPICH and its relatives (Hydra)
  srun,      // Slurm
  pals,      // mpiexec of HPE Cray machines under PBS
  alps,      // aprun of older Cray machines
  pmi,       // another launcher that speaks PMI
  pmix,      // another launcher that speaks PMIx
  torchrun,  // or whatever else sets RANK and WORLD_SIZE: no MPI
};

// "Slurm's srun", "Open MPI's mpirun".
[[nodiscard]] std::string_view name_of(StartedBy started_by);

// How srun, which serves every MPI, was told to introduce ranks to one another: its --mpi.
enum class SlurmMpi : std::uint8_t { none, pmi2, pmix };

// How this process was started, as far as its environment variables tell. What MPI says counts;
// this is for what has to be known before MPI is initialized, and for telling that MPI doesn't see
// what the launcher did (require_suitable_launcher()).
struct LaunchEnvironment {
  StartedBy started_by = StartedBy::nobody;
  std::string launcher;  // name_of(started_by); empty: nobody
  int rank = 0;
  int size = 1;
  bool size_is_known = true;      // some launchers only tell it through MPI; size is 1 then
  std::optional<int> local_size;  // ranks on this node, where the launcher says so
  std::optional<int> cpus;        // that the launcher keeps for each rank, where it says so
  SlurmMpi slurm_mpi = SlurmMpi::none;
  bool in_slurm_allocation = false;  // a Slurm job, but not a rank started by srun
  bool in_pbs_job = false;           // a job of PBS or Cobalt, but not a rank

  [[nodiscard]] bool is_launched() const { return started_by != StartedBy::nobody; }
};

// The value of an environment variable; nothing when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

[[nodiscard]] LaunchEnvironment detect_launch_environment(const EnvironmentLookup& lookup);

// From the environment of this process.
[[nodiscard]] LaunchEnvironment detect_launch_environment();

// One variable of this process's environment, for functions that take an EnvironmentLookup.
[[nodiscard]] std::optional<std::string> environment_variable(const char* name);

// "Slurm job 12", "Slurm job 12_3, restart 1", "PBS job 7.server"; empty outside jobs.
[[nodiscard]] std::string describe_job(const EnvironmentLookup& lookup = environment_variable);

// The job's number for names of folders, "12", "12_3" or "7" (of PBS' 7.server): the same after the
// job was put into the queue again. Empty outside jobs, and for ranks that another launcher than
// the scheduler's has started on several nodes, where not all may know it.
[[nodiscard]] std::string job_number(const EnvironmentLookup& lookup = environment_variable);

// In which the ranks find it, from kolo's own launcher.
inline constexpr const char* job_number_variable = "KOLO_JOB";

// How many tasks Slurm starts on one of a step's nodes, counted from 0, by the notation of
// SLURM_STEP_TASKS_PER_NODE: "2(x3),1". Nothing for what can't be understood.
[[nodiscard]] std::optional<int> slurm_tasks_on_node(std::string_view text, int node);

// InputError when the user asked for a number of ranks (0: did not ask) other than a launcher has
// started. Without a launcher it must be at most one: more have to be started (launch_ranks.h).
void require_ranks(const LaunchEnvironment& environment, int requested);

// The MPI that this program is linked with. Where it and a launcher do not know one another, each
// process believes to be alone, and would train and write the same files.
struct LinkedMpi {
  bool is_open_mpi = true;
  std::string name;  // "Open MPI v4.1.4", "MPICH 4.0.2"
};

// From what mpi_library_version() says.
[[nodiscard]] LinkedMpi parse_mpi_version(const std::string& version);

// The launcher and MPI don't fit, as all ranks find alike: rank 0 is to tell it, as there is no
// other way to say it once.
class WrongLauncher : public InputError {
 public:
  using InputError::InputError;
};

// Before MPI is initialized, which can end the program without a word of ours. `insist`: the user
// has said that MPI is to be used, so only what can't work is refused. WrongLauncher.
void require_suitable_launcher(const LaunchEnvironment& environment, const LinkedMpi& mpi,
                               bool insist);

// Once MPI has said how many ranks it sees. WrongLauncher when the launcher started another number.
void require_all_ranks(const LaunchEnvironment& environment, const LinkedMpi& mpi, int size);

}  // namespace kolo
