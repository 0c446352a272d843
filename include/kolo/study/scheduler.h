#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kolo/observe/study.h"

namespace kolo {

// Where the runs of a study become jobs.
struct SchedulerOptions {
  std::string name;              // slurm | pbs
  std::string options;           // of sbatch or qsub, more of them, separated by blanks
  std::filesystem::path script;  // what a job runs; empty: kolo's own
};

// InputError: an unknown scheduler, its command is not in PATH, no script where one was named, or
// kolo's own can't be found.
[[nodiscard]] SchedulerOptions checked(const SchedulerOptions& options);

// The command line that hands a run over. `arguments`: what follows `kolo train`.
[[nodiscard]] std::vector<std::string> submit_command(const SchedulerOptions& options,
                                                      const StudyPoint& point,
                                                      const std::string& job_name,
                                                      const std::filesystem::path& log,
                                                      const std::vector<std::string>& arguments);

// Hands a run over and returns the job's name. Error, with what the scheduler said.
[[nodiscard]] std::string submit(const std::vector<std::string>& command);

// The scheduler still has the job, waiting or running. Error when it can't be asked.
[[nodiscard]] bool has_job(const SchedulerOptions& options, const std::string& job);

}  // namespace kolo
