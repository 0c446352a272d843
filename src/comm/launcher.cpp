#include "kolo/comm/launcher.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <iterator>

#include <fmt/format.h>

#include "base/file_failure.h"
#include "comm/processes/process_region.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

std::optional<int> parse_count(std::string_view text) {
  const auto value = parse_number<int>(text);
  return value >= 0 ? value : std::nullopt;
}

using Names = std::initializer_list<const char*>;

// Value of the first of these variables that is set to a number, which is added to `said`.
std::optional<int> number(const EnvironmentLookup& lookup, Names names,
                          std::string* said = nullptr) {
  for (const char* const name : names) {
    const auto value = parse_count(lookup(name).value_or(""));
    if (!value) continue;
    if (said) *said += fmt::format("{}{}={}", said->empty() ? "" : ", ", name, *value);
    return value;
  }
  return std::nullopt;
}

// How a launcher is recognized: all `signs` must be numbers. Of the other lists the first variable
// that is a number counts.
struct Launcher {
  StartedBy by;
  std::string_view name;
  Names signs, rank, size = {}, local_size = {}, cpus = {};
};

// The order puts an inner launcher first: an mpirun inside a job keeps the outer one's variables.
// torchrun's names are so general that they come last. Hydra tells the ranks of a node, srun's PMI
// does not. A batch script has SLURM_PROCID as tasks of srun have, but no number in SLURM_STEP_ID.
constexpr Launcher launchers[] = {
    {StartedBy::open_mpi,
     "Open MPI's mpirun",
     {"OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_RANK"},
     {"OMPI_COMM_WORLD_SIZE"},
     {"OMPI_COMM_WORLD_LOCAL_SIZE"}},
    {StartedBy::mpich,
     "MPICH's mpiexec",
     {"MPI_LOCALNRANKS", "PMI_SIZE"},
     {"PMI_RANK"},
     {"PMI_SIZE"},
     {"MPI_LOCALNRANKS"}},
    {StartedBy::kolo,
     "kolo",
     {process_rank_variable},
     {process_rank_variable},
     {process_ranks_variable},
     {process_ranks_variable}},
    {StartedBy::srun,
     "Slurm's srun",
     {"SLURM_STEP_ID"},
     {"SLURM_PROCID"},
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     {},
     {"SLURM_CPUS_PER_TASK"}},
    {StartedBy::pals,
     "PALS' mpiexec",
     {},
     {"PALS_RANKID"},
     {"PMI_SIZE", "PALS_SIZE"},
     {"PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"},
     {"PALS_DEPTH"}},
    {StartedBy::pmi, "a launcher that speaks PMI", {"PMI_SIZE"}, {"PMI_RANK"}, {"PMI_SIZE"}},
    {StartedBy::pmix, "a launcher that speaks PMIx", {}, {"PMIX_RANK"}},
    {StartedBy::torchrun,
     "torchrun",
     {"WORLD_SIZE"},
     {"RANK"},
     {"WORLD_SIZE"},
     {"LOCAL_WORLD_SIZE"}},
};

// Environment of a rank of this launcher; nothing where it has not started this process.
std::optional<LaunchEnvironment> launched(const Launcher& launcher,
                                          const EnvironmentLookup& lookup) {
  for (const char* const sign : launcher.signs) {
    if (!number(lookup, {sign})) return std::nullopt;
  }
  std::string variables;
  const auto rank = number(lookup, launcher.rank, &variables),
             size = number(lookup, launcher.size, &variables);
  if (!rank || (size && *rank >= *size)) return std::nullopt;
  LaunchEnvironment environment;
  environment.started_by = launcher.by;
  environment.launcher = launcher.name;
  environment.variables = variables;
  environment.rank = *rank;
  environment.size = size.value_or(1);
  environment.size_is_known = size.has_value();
  environment.local_size = number(lookup, launcher.local_size);
  environment.cpus = number(lookup, launcher.cpus);
  return environment;
}

void add_what_srun_says(LaunchEnvironment& environment, const EnvironmentLookup& lookup) {
  environment.size_is_known = true;  // one, unless it says more
  environment.local_size = slurm_tasks_on_node(lookup("SLURM_STEP_TASKS_PER_NODE").value_or(""),
                                               number(lookup, {"SLURM_NODEID"}).value_or(0));
  if (lookup("PMIX_RANK"))
    environment.slurm_mpi = SlurmMpi::pmix;
  else if (lookup("PMI_RANK"))
    environment.slurm_mpi = SlurmMpi::pmi2;
}

}  // namespace

std::string_view name_of(StartedBy started_by) {
  const auto found = std::ranges::find(launchers, started_by, &Launcher::by);
  return found == std::end(launchers) ? "" : found->name;
}

LaunchEnvironment detect_launch_environment(const EnvironmentLookup& lookup) {
  for (const Launcher& launcher : launchers) {
    if (launcher.by == StartedBy::pmix &&
        (number(lookup, {"PMI_SIZE"}) || !lookup("PMIX_NAMESPACE")))
      continue;
    auto environment = launched(launcher, lookup);
    if (!environment) continue;
    // One process is a rank alone, whoever has started it.
    if (launcher.by == StartedBy::torchrun && environment->size < 2) continue;
    if (launcher.by == StartedBy::srun) add_what_srun_says(*environment, lookup);
    return *environment;
  }
  LaunchEnvironment environment;
  environment.in_slurm_allocation = lookup("SLURM_JOB_ID").has_value();
  environment.in_pbs_job = !environment.in_slurm_allocation && lookup("PBS_NODEFILE").has_value();
  return environment;
}

std::optional<std::string> environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

LaunchEnvironment detect_launch_environment() {
  return detect_launch_environment(environment_variable);
}

std::optional<int> slurm_tasks_on_node(std::string_view text, int node) {
  while (!text.empty() && node >= 0) {
    const auto comma = text.find(',');
    auto word = text.substr(0, comma);
    text.remove_prefix(comma == text.npos ? text.size() : comma + 1);
    int nodes = 1;
    if (const auto bracket = word.find("(x"); bracket != word.npos && word.ends_with(')')) {
      const auto repeated = word.substr(bracket + 2, word.size() - bracket - 3);
      nodes = parse_count(repeated).value_or(0);
      word = word.substr(0, bracket);
    }
    const auto tasks = parse_count(word);
    if (!tasks || nodes == 0) return std::nullopt;
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return std::nullopt;
}

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

namespace {

// Advice on the launcher that starts ranks of this MPI.
std::string right_launcher(const LaunchEnvironment& environment, const LinkedMpi& mpi) {
  if (environment.started_by == StartedBy::srun) {
    return fmt::format(
        "use srun --mpi={} (srun --mpi=list shows what this Slurm has), or kolo's own option "
        "-n {} in the job's script, without srun",
        mpi.is_open_mpi ? "pmix" : "pmi2", environment.size);
  }
  return fmt::format(
      "use kolo's own option -n {} (kolo run -n {} PROGRAM starts any program), or {} of {} (in "
      "Debian the package {}; {} where several are installed)",
      environment.size, environment.size, mpi.is_open_mpi ? "mpirun" : "mpiexec",
      mpi.is_open_mpi ? "Open MPI" : "MPICH", mpi.is_open_mpi ? "openmpi-bin" : "mpich",
      mpi.is_open_mpi ? "mpirun.openmpi" : "mpiexec.mpich");
}

std::string_view option_of(SlurmMpi slurm_mpi) {
  constexpr std::string_view options[] = {"--mpi=none", "--mpi=pmi2", "--mpi=pmix"};
  return options[static_cast<std::size_t>(slurm_mpi)];
}

constexpr auto way_out = "KOLO_LAUNCHER_CHECK=off lets each process go on by itself";

std::string processes(int count) {
  return fmt::format("{} process{}", count, count == 1 ? "" : "es");
}

}  // namespace

bool is_alone_under_srun(const LaunchEnvironment& environment) {
  return environment.started_by == StartedBy::srun && environment.size == 1 &&
         environment.slurm_mpi == SlurmMpi::none;
}

void require_suitable_launcher(const LaunchEnvironment& environment, const LinkedMpi& mpi) {
  if (environment.started_by == StartedBy::kolo && environment.size > 1) {
    throw WrongLauncher(fmt::format(
        "kolo has started {} without MPI, and this program asks for MPI's ranks: make its "
        "communicator by kolo::initialize(), or start it by kolo run --launcher mpi",
        processes(environment.size)));
  }
  if (environment.started_by == StartedBy::torchrun) {
    throw WrongLauncher(fmt::format(
        "RANK and WORLD_SIZE say that torchrun or its like has started {} ({}), but they are not "
        "connected: kolo's ranks are those of MPI ({}); {}. Where the variables are only left "
        "over: env -u RANK -u WORLD_SIZE kolo ...; {}",
        processes(environment.size), environment.variables, mpi.name,
        right_launcher(environment, mpi), way_out));
  }
  if (environment.started_by != StartedBy::srun || !mpi.is_open_mpi ||
      environment.slurm_mpi == SlurmMpi::pmix || is_alone_under_srun(environment))
    return;
  // An Open MPI 4 that was built with Slurm's own PMI understands pmi2, too; Debian's doesn't.
  throw WrongLauncher(fmt::format(
      "Slurm's srun has started {} ({}), but not connected them for {}, which takes PMIx: this was "
      "srun {}; {}; {}",
      processes(environment.size), environment.variables, mpi.name,
      option_of(environment.slurm_mpi), right_launcher(environment, mpi), way_out));
}

void require_room_for_shared_memory(const std::string& subsystem,
                                    std::optional<std::uint64_t> file_size_limit,
                                    const std::string& way_out) {
  // Files of Open MPI 4.1 and its PMIx are 4 MiB and a little more.
  constexpr std::uint64_t files_of_mpi = std::uint64_t{5} << 20;
  if (!file_size_limit || *file_size_limit >= files_of_mpi) return;
  throw InputError(fmt::format(
      "{}: {}, and the ranks of a machine share memory in files of up to {} bytes: raise that "
      "limit, with ulimit -f unlimited where you may, or {}",
      subsystem, describe_file_size_limit(*file_size_limit), files_of_mpi, way_out));
}

void require_all_ranks(const LaunchEnvironment& environment, const LinkedMpi& mpi, int size) {
  // MPI may see more ranks than the launcher; a rank beyond MPI's size shows that there are others.
  const bool are_all_there =
      environment.size_is_known ? environment.size <= size : environment.rank < size;
  if (!environment.is_launched() || are_all_there) return;
  const auto seen = size == 1 ? std::string("each is alone in MPI")
                              : fmt::format("MPI connects {} of them only", size);
  throw WrongLauncher(fmt::format(
      "{} has started {} ({}), but {}: this program's kolo uses {}, which does not know that "
      "launcher{}; {}; {}",
      environment.launcher,
      environment.size_is_known ? processes(environment.size) : "several processes",
      environment.variables, seen, mpi.name,
      environment.started_by == StartedBy::srun
          ? fmt::format(" with {}", option_of(environment.slurm_mpi))
          : "",
      right_launcher(environment, mpi), way_out));
}

}  // namespace kolo
