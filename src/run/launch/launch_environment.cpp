#include "kolo/run/launch_environment.h"

#include <cstdlib>

#include <fmt/format.h>

namespace kolo {

std::string job_number(const EnvironmentLookup& lookup) {
  if (const auto given = lookup(job_number_variable)) return *given;
  const auto started_by = detect_launch_environment(lookup).started_by;
  using enum StartedBy;
  if (started_by != nobody && started_by != srun && started_by != pals && started_by != alps)
    return {};
  if (const auto array = lookup("SLURM_ARRAY_JOB_ID"))
    return fmt::format("{}_{}", *array, lookup("SLURM_ARRAY_TASK_ID").value_or("0"));
  for (const char* const name : {"SLURM_JOB_ID", "PBS_JOBID", "COBALT_JOBID"})
    if (const auto job = lookup(name)) return job->substr(0, job->find('.'));
  return {};
}

std::string describe_job(const EnvironmentLookup& lookup) {
  if (const auto job = lookup("SLURM_JOB_ID")) {
    const auto array = lookup("SLURM_ARRAY_JOB_ID"), task = lookup("SLURM_ARRAY_TASK_ID");
    const int restarts = std::atoi(lookup("SLURM_RESTART_COUNT").value_or("0").c_str());
    return fmt::format("Slurm job {}{}", array && task ? fmt::format("{}_{}", *array, *task) : *job,
                       restarts > 0 ? fmt::format(", restart {}", restarts) : "");
  }
  if (const auto job = lookup("PBS_JOBID")) return fmt::format("PBS job {}", *job);
  if (const auto job = lookup("COBALT_JOBID")) return fmt::format("Cobalt job {}", *job);
  return {};
}

void require_ranks(const LaunchEnvironment& environment, int requested) {
  if (requested == 0 || requested == environment.size) return;
  if (environment.is_launched()) {
    throw InputError(fmt::format(
        "-n {} asks for {} rank{}, but {} has started {}; leave -n out, or start the program "
        "without {}",
        requested, requested, requested == 1 ? "" : "s", environment.launcher,
        environment.size_is_known ? std::to_string(environment.size) : "this already",
        environment.launcher));
  }
  throw InputError(fmt::format("-n {}: these ranks have not been started", requested));
}

}  // namespace kolo
