#pragma once

#include <string>

#include "kolo/comm/launcher.h"

namespace kolo {

// "Slurm job 12", "Slurm job 12_3, restart 1", "PBS job 7.server"; empty outside jobs.
[[nodiscard]] std::string describe_job(const EnvironmentLookup& lookup = environment_variable);

// The job's number for names of folders, "12", "12_3" or "7" (of PBS' 7.server): the same after the
// job was put into the queue again. Empty outside jobs, and for ranks that another launcher than
// the scheduler's has started on several nodes, where not all may know it.
[[nodiscard]] std::string job_number(const EnvironmentLookup& lookup = environment_variable);

// In which the ranks find it, from kolo's own launcher.
inline constexpr const char* job_number_variable = "KOLO_JOB";

// The user's OMP_PROC_BIND, empty where it is not set, while kolo's own is "false"
// (run/begin_process.h): programs that kolo starts for the user get it back.
inline constexpr const char* openmp_binding_before = "KOLO_OMP_PROC_BIND_BEFORE";

// InputError when the user asked for a number of ranks (0: did not ask) other than a launcher has
// started. Without a launcher it must be at most one: more have to be started (launch_ranks.h).
void require_ranks(const LaunchEnvironment& environment, int requested);

}  // namespace kolo
