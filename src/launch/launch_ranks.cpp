#include "kolo/launch/launch_ranks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/comm/mpi.h"
#include "launch/supervise.h"
#include "launch/terminal.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

// The MPI that this program is linked with decides which mpirun can start it.
Launcher launcher_of_linked_mpi() {
  const auto version = mpi_library_version();
  if (version.find("Open MPI") == std::string::npos) return Launcher::mpich;
  const auto number = version.find(" v");
  const bool is_4 = number != std::string::npos && std::atoi(version.c_str() + number + 2) < 5;
  return is_4 ? Launcher::open_mpi_4 : Launcher::open_mpi_5;
}

// Where several MPIs are installed, Debian keeps each mpirun under a name of its own beside the
// common one.
std::string find_mpirun(Launcher launcher) {
  const auto common = find_in_path("mpirun");
  if (common.empty()) {
    throw InputError(fmt::format(
        "-n starts the ranks with mpirun, and there is none in PATH; install the package {}",
        launcher == Launcher::mpich ? "mpich" : "openmpi-bin"));
  }
  const auto own = common + (launcher == Launcher::mpich ? ".mpich" : ".openmpi");
  return ::access(own.c_str(), X_OK) == 0 ? own : common;
}

std::string find_srun() {
  auto path = find_in_path("srun");
  if (path.empty()) {
    throw InputError(
        "-n starts the ranks with srun inside a Slurm job, and there is none in PATH; install the "
        "package slurm-client, or unset SLURM_JOB_ID to start them on this machine alone");
  }
  return path;
}

// The mpiexec of HPE's machines, which knows the job's nodes by itself and serves their MPICH; it
// lives in a folder named after it. Empty where there is none, or no job.
std::string find_pals(const LaunchEnvironment& environment, Launcher linked) {
  if (!environment.in_pbs_job || linked != Launcher::mpich) return {};
  const auto program = find_in_path("mpiexec");
  std::error_code error;
  const auto real = program.empty() ? fs::path() : fs::canonical(program, error);
  const bool is_pals = std::ranges::find(real, fs::path("pals")) != real.end();
  return is_pals ? program : std::string();
}

// None where this machine is the only one.
std::vector<Host> hosts_of_pbs_job() {
  const auto file = environment_variable("PBS_NODEFILE").value_or("");
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    throw InputError(
        fmt::format("-n takes the nodes of a PBS job from the file that PBS_NODEFILE names, and "
                    "there is no {}; "
                    "unset PBS_NODEFILE to start the ranks on this machine alone",
                    file));
  }
  auto hosts = read_nodefile(file);
  if (hosts.size() == 1) hosts.clear();  // where the job's script runs
  return hosts;
}

// This very command line, with the program's path for whatever it was called by.
std::vector<std::string> own_command() {
  auto command = own_words();
  if (command.empty()) throw Error("cannot read this program's arguments from /proc/self/cmdline");
  command[0] = own_program();
  return command;
}

bool is_failure(const JobEnd& end) {
  return !end.was_asked() && end.status != 0 && end.status != exit_wrong_input &&
         end.status != exit_stopped;
}

// "the job ended with status 137 (Killed)"
std::string describe(const JobEnd& end) {
  const int signal = end.status - 128;
  return fmt::format("the job ended with status {}{}", end.status,
                     signal > 0 && signal < NSIG ? fmt::format(" ({})", ::strsignal(signal)) : "");
}

// The job's status, after as many restarts as the policy allows.
int run_job(const LaunchRequest& request, const RestartPolicy& policy) {
  const auto machine = examine_machine(detect_launch_environment());
  std::string message;
  for (int restart = 0;; ++restart) {
    LaunchRequest attempt = request;
    if (restart > 0 && policy.before_restart) policy.before_restart(attempt, message);
    attempt.environment.emplace_back("KOLO_RESTART", std::to_string(restart));
    std::cout << std::flush;
    const auto end = supervise(rank_command(attempt, machine), policy.stop);
    if (end.was_asked() && policy.stop.signal == SIGTERM) return 128 + end.asked_by;
    // Ranks that did not listen yet.
    if (end.was_asked() && policy.stop.signal == SIGUSR1 && end.status == 128 + SIGUSR1) {
      complain("stopped before the training began");
      return exit_stopped;
    }
    if (!is_failure(end) || policy.restarts == 0) return end.status;
    const auto objection = policy.objection ? policy.objection(end.status) : std::string();
    if (!objection.empty()) {
      complain(fmt::format("{}; {}", describe(end), objection));
      return end.status;
    }
    if (restart == policy.restarts) {
      complain(fmt::format("{}; it was restarted {} time{}, and is not again", describe(end),
                           restart, restart == 1 ? "" : "s"));
      return end.status;
    }
    message = fmt::format("{}; starting it again (restart {} of {})", describe(end), restart + 1,
                          policy.restarts);
    complain(message);
  }
}

}  // namespace

std::string find_in_path(const std::string& name) {
  std::istringstream folders(environment_variable("PATH").value_or("/usr/bin:/bin"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code error;
    if (fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

MachineFacts examine_machine(const LaunchEnvironment& environment) {
  MachineFacts facts;
  facts.launcher = launcher_of_linked_mpi();
  if (environment.in_slurm_allocation) {
    facts.slurm_mpi = facts.launcher == Launcher::mpich ? "pmi2" : "pmix";
    facts.launcher = Launcher::srun;
    facts.program = find_srun();
  } else if (const auto pals = find_pals(environment, facts.launcher); !pals.empty()) {
    facts.launcher = Launcher::pals;
    facts.program = pals;
  } else {
    facts.program = find_mpirun(facts.launcher);
  }
  if (environment.in_pbs_job) facts.job_hosts = hosts_of_pbs_job();
  const auto limits = detect_cpu_limits();
  facts.cpus = limits.cpus();
  facts.cores = limits.cores();
  facts.whole_machine = facts.cpus == limits.online;
  facts.is_root = ::geteuid() == 0;
  facts.terminal = describe_terminal(detect_progress_options(STDOUT_FILENO));
  return facts;
}

std::string own_program() {
  return fs::read_symlink("/proc/self/exe");
}

std::vector<std::string> own_words() {
  std::vector<std::string> words;
  std::ifstream arguments("/proc/self/cmdline");
  for (std::string word; std::getline(arguments, word, '\0');) words.push_back(word);
  return words;
}

int run_ranks(const LaunchRequest& request, const RestartPolicy& policy) {
  LaunchRequest complete = request;
  if (complete.command.empty()) {
    complete.command = own_command();
    complete.end_together = true;
  }
  return run_job(complete, policy);
}

}  // namespace kolo
