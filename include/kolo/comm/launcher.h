#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "kolo/base/enum_names.h"
#include "kolo/base/error.h"

namespace kolo {

// Launchers of several processes.
enum class StartedBy : std::uint8_t {
  nobody,
  kolo,      // as processes of this machine, without MPI (kolo/comm/processes.h)
  open_mpi,  // mpirun of Open MPI
  mpich,     // mpiexec of MPICH and its relatives (Hydra)
  srun,      // Slurm
  pals,      // mpiexec of HPE Cray machines under PBS
  pmi,       // another launcher that speaks PMI
  pmix,      // another launcher that speaks PMIx
  torchrun,  // or whatever else sets RANK and WORLD_SIZE: no MPI
};

// Launcher of the ranks of -n. automatic: processes of this machine, without MPI, where all ranks
// are to be here; otherwise, over hosts and nodes, MPI's launcher.
enum class LauncherChoice : std::uint8_t { automatic, processes, mpi };

constexpr auto enum_names(LauncherChoice) {
  return std::to_array<EnumName<LauncherChoice>>({{LauncherChoice::automatic, "auto"},
                                                  {LauncherChoice::processes, "processes"},
                                                  {LauncherChoice::mpi, "mpi"}});
}

// "Slurm's srun", "Open MPI's mpirun".
[[nodiscard]] std::string_view name_of(StartedBy started_by);

// srun's option --mpi, which says how it introduces ranks to one another.
enum class SlurmMpi : std::uint8_t { none, pmi2, pmix };

// Launcher of this process, by its environment variables: known before MPI is initialized, and
// compared with MPI's number of ranks.
struct LaunchEnvironment {
  StartedBy started_by = StartedBy::nobody;
  std::string launcher;   // name_of(started_by); empty: nobody
  std::string variables;  // that say so: "PMI_RANK=0, PMI_SIZE=2"
  int rank = 0;
  int size = 1;
  bool size_is_known = true;      // some launchers only tell it through MPI; size is 1 then
  std::optional<int> local_size;  // ranks on this node, where the launcher says it
  std::optional<int> cpus;        // kept for each rank, where the launcher says it
  SlurmMpi slurm_mpi = SlurmMpi::none;
  bool in_slurm_allocation = false;  // a Slurm job, but not a rank started by srun
  bool in_pbs_job = false;           // a job of PBS, but not a rank

  [[nodiscard]] bool is_launched() const { return started_by != StartedBy::nobody; }
};

// Gives an environment variable's value; nothing when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

[[nodiscard]] LaunchEnvironment detect_launch_environment(const EnvironmentLookup& lookup);
[[nodiscard]] LaunchEnvironment detect_launch_environment();  // of this process

// Variable and value that keep hwloc, which MPI and its launchers use, from looking for X displays,
// which takes minutes where nothing answers for `localhost`.
inline constexpr const char* hwloc_components = "HWLOC_COMPONENTS";
inline constexpr const char* hwloc_without_displays = "-gl";

// The EnvironmentLookup of this process.
[[nodiscard]] std::optional<std::string> environment_variable(const char* name);

// Number of tasks that Slurm starts on one of a step's nodes, counted from 0, by the notation of
// SLURM_STEP_TASKS_PER_NODE: "2(x3),1". Nothing where the text makes no sense.
[[nodiscard]] std::optional<int> slurm_tasks_on_node(std::string_view text, int node);

// MPI that this program is linked with. Where a launcher does not know it, each process believes to
// be alone, and would train and write the same files.
struct LinkedMpi {
  bool is_open_mpi = true;
  std::string name;  // "Open MPI v4.1.4", "MPICH 4.0.2"
};

// Parses mpi_library_version().
[[nodiscard]] LinkedMpi parse_mpi_version(const std::string& version);

// The launcher and MPI don't fit. All ranks find that alike, so rank 0 alone should tell it.
class WrongLauncher : public InputError {
 public:
  using InputError::InputError;
};

// To be called before MPI is initialized, which can end the program without a word of ours.
// WrongLauncher where the launcher doesn't connect ranks of this MPI.
void require_suitable_launcher(const LaunchEnvironment& environment, const LinkedMpi& mpi);

// To be called before MPI is initialized, too: InputError where `file_size_limit`, in bytes, leaves
// no room for the files in which MPI's processes share memory, and MPI would end the program or
// hang. `subsystem` begins the message, `way_out` ends it: "start one rank, without -n".
void require_room_for_shared_memory(const std::string& subsystem,
                                    std::optional<std::uint64_t> file_size_limit,
                                    const std::string& way_out);

// To be called when MPI has said how many ranks it sees. WrongLauncher where the launcher has
// started more.
void require_all_ranks(const LaunchEnvironment& environment, const LinkedMpi& mpi, int size);

// Tells whether srun has started this process alone: Open MPI refuses to start then, because it
// takes the variables for those of several ranks.
[[nodiscard]] bool is_alone_under_srun(const LaunchEnvironment& environment);

}  // namespace kolo
