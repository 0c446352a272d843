#include "cli/launch/launch_environment.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// A count or rank; nothing when the variable is not set or not a number.
std::optional<int> number(const EnvironmentLookup& lookup, const char* name) {
  const auto text = lookup(name);
  if (!text || text->empty()) return std::nullopt;
  int value = 0;
  const char* const end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc{} || stopped != end || value < 0) return std::nullopt;
  return value;
}

struct LauncherVariables {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_size;
};

// In this order, because mpirun inside a Slurm job leaves Slurm's variables of the batch step or of
// its own daemons in place: there the MPI rank is the truth.
constexpr LauncherVariables mpi_launchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH or PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
};

// srun gives every task SLURM_STEP_ID and SLURM_PROCID; a batch script has SLURM_PROCID too, but
// its step is no number a task could have started under (SLURM_STEP_ID is not set, or "batch").
bool is_srun_task(const EnvironmentLookup& lookup) {
  return number(lookup, "SLURM_STEP_ID") && number(lookup, "SLURM_PROCID");
}

std::optional<int> first_number(const EnvironmentLookup& lookup,
                                std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (const auto value = number(lookup, name)) return value;
  }
  return std::nullopt;
}

}  // namespace

LaunchEnvironment detect_launch_environment(const EnvironmentLookup& lookup) {
  LaunchEnvironment environment;
  for (const auto& variables : mpi_launchers) {
    const auto rank = number(lookup, variables.rank), size = number(lookup, variables.size);
    if (!rank || !size || *rank >= *size) continue;
    environment.launcher = variables.launcher;
    environment.rank = *rank;
    environment.size = *size;
    environment.local_size = number(lookup, variables.local_size);
    return environment;
  }
  if (is_srun_task(lookup)) {
    const auto size = first_number(lookup, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}).value_or(1);
    const auto rank = *number(lookup, "SLURM_PROCID");
    if (rank < size) {
      environment.launcher = "Slurm";
      environment.rank = rank;
      environment.size = size;
      return environment;
    }
  }
  environment.in_slurm_allocation = lookup("SLURM_JOB_ID").has_value();
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

void require_ranks(const LaunchEnvironment& environment, int requested) {
  if (requested == 0 || requested == environment.size) return;
  if (environment.is_launched()) {
    throw InputError(fmt::format(
        "-n {} asks for {} rank{}, but {} has started {}; leave -n out, or start the program "
        "without {}",
        requested, requested, requested == 1 ? "" : "s", environment.launcher, environment.size,
        environment.launcher == "Slurm" ? "srun" : "mpirun"));
  }
  throw InputError(fmt::format("-n {}: these ranks have not been started", requested));
}

}  // namespace kolo
