#include "kolo/run/launch_ranks.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include "base/file_failure.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"
#include "kolo/comm/mpi.h"
#include "run/launch/launch_advice.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

// Launcher of the MPI that this program is linked with: no other can start it.
Launcher launcher_of_linked_mpi() {
  const auto version = mpi_library_version();
  if (version.find("Open MPI") == std::string::npos) return Launcher::mpich;
  const auto number = version.find(" v");
  const bool is_4 = number != std::string::npos && std::atoi(version.c_str() + number + 2) < 5;
  return is_4 ? Launcher::open_mpi_4 : Launcher::open_mpi_5;
}

bool is_program(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0;
}

// Executable files of that name in PATH.
std::vector<std::string> all_in_path(const std::string& name) {
  std::vector<std::string> files;
  std::istringstream folders(environment_variable("PATH").value_or(default_path));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    if (is_program(file)) files.push_back(file);
  }
  return files;
}

// Tells whether an mpirun is a link to another MPI's: Open MPI's is called orterun or prterun, that
// of MPICH and its descendants mpiexec.hydra.
bool is_of_other_mpi(const std::string& mpirun, Launcher launcher) {
  std::error_code error;
  const auto name = fs::canonical(mpirun, error).filename().string();
  const auto has = [&](const char* word) { return name.find(word) != name.npos; };
  const bool is_open_mpi = has("orterun") || has("prte") || has("openmpi");
  const bool is_mpich = has("hydra") || has("mpich") || has("mpirun_rsh");
  return launcher == Launcher::mpich ? is_open_mpi : is_mpich;
}

// Prefers Debian's mpirun.openmpi or mpirun.mpich, which stand beside the common name where several
// MPIs are installed.
std::string find_mpirun(Launcher launcher) {
  const bool is_mpich = launcher == Launcher::mpich;
  const auto candidates = all_in_path("mpirun");
  for (const auto& common : candidates) {
    const auto own = common + (is_mpich ? ".mpich" : ".openmpi");
    if (::access(own.c_str(), X_OK) == 0) return own;
    if (!is_of_other_mpi(common, launcher)) return common;
  }
  const auto linked = mpi_library_version();  // "Open MPI v4.1.4, package: ..."
  const auto found =
      candidates.empty()
          ? std::string("there is none in PATH")
          : fmt::format("{} in PATH is of another MPI than kolo's, {}", candidates.front(),
                        linked.substr(0, linked.find_first_of(",\n")));
  throw InputError(fmt::format(
      "-n starts the ranks with mpirun, and {}; install the package {}, or start them without MPI: "
      "communication.launcher=processes, kolo run --launcher processes",
      found, is_mpich ? "mpich" : "openmpi-bin"));
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

// Finds HPE's mpiexec, which knows the job's nodes and serves HPE's MPICH; its folder is called
// pals. Empty where there is none, or no job.
std::string find_pals(const LaunchEnvironment& environment, Launcher linked) {
  if (!environment.in_pbs_job || linked != Launcher::mpich) return {};
  const auto program = find_in_path("mpiexec");
  std::error_code error;
  const auto real = program.empty() ? fs::path() : fs::canonical(program, error);
  const bool is_pals = std::ranges::find(real, fs::path("pals")) != real.end();
  return is_pals ? program : std::string();
}

// Hosts of the job; none where this machine is the only one.
std::vector<Host> hosts_of_pbs_job() {
  const auto file = environment_variable("PBS_NODEFILE").value_or("");
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    throw InputError(fmt::format(
        "-n takes the nodes of a PBS job from the file that PBS_NODEFILE names, and {} {}; unset "
        "PBS_NODEFILE to start the ranks on this machine alone",
        file.empty() ? "nothing" : file, fs::exists(file, error) ? "is no file" : "is not there"));
  }
  auto hosts = read_hostfile(file);
  if (hosts.size() == 1) hosts.clear();  // where the job's script runs
  return hosts;
}

// Tells whether all ranks run on this machine. A shell that salloc has opened may be on a machine
// outside the allocation.
bool is_one_machine(const LaunchEnvironment& environment) {
  if (environment.in_slurm_allocation)
    return environment_variable("SLURM_JOB_NUM_NODES") == "1" &&
           environment_variable("SLURMD_NODENAME");
  return !environment.in_pbs_job || hosts_of_pbs_job().empty();
}

bool are_processes(const LaunchEnvironment& environment, LauncherChoice choice, bool hosts) {
  if (choice == LauncherChoice::processes && hosts) {
    throw InputError(
        "communication.launcher: processes are ranks on this machine; leave the hosts out, or the "
        "launcher");
  }
  if (choice != LauncherChoice::automatic) return choice == LauncherChoice::processes;
  return !hosts && is_one_machine(environment);
}

void find_mpi_launcher(MachineFacts& facts, const LaunchEnvironment& environment) {
  if (mpi_library_version().empty()) {
    throw InputError(
        "-n: this kolo was built without MPI, so its ranks are processes of this machine that "
        "share memory: leave out other hosts and nodes (communication.launcher=processes, kolo run "
        "--launcher processes), or build kolo with KOLO_MPI=ON");
  }
  facts.launcher = launcher_of_linked_mpi();
  if (environment.in_slurm_allocation) {
    const auto usual = facts.launcher == Launcher::mpich ? "pmi2" : "pmix";
    facts.slurm_mpi = environment_variable("KOLO_MPI").value_or(usual);  // of the job scripts
    facts.launcher = Launcher::srun;
    facts.program = find_srun();
  } else if (const auto pals = find_pals(environment, facts.launcher); !pals.empty()) {
    facts.launcher = Launcher::pals;
    facts.program = pals;
  } else {
    facts.program = find_mpirun(facts.launcher);
  }
  if (environment.in_pbs_job) facts.job_hosts = hosts_of_pbs_job();
}

}  // namespace

std::string find_in_path(const std::string& name) {
  const auto files = all_in_path(name);
  return files.empty() ? std::string() : files.front();
}

MachineFacts examine_machine(const LaunchEnvironment& environment, LauncherChoice choice,
                             bool hosts) {
  MachineFacts facts;
  if (are_processes(environment, choice, hosts))
    facts.launcher = Launcher::processes;
  else
    find_mpi_launcher(facts, environment);
  const auto limits = detect_cpu_limits();
  facts.cpus = limits.cpus();
  facts.cores = limits.cores();
  facts.cpus_of_cores = allowed_cores();
  facts.whole_machine = facts.cpus == limits.online;
  facts.is_root = ::geteuid() == 0;
  facts.has_home = environment_variable("HOME") || ::getpwuid(::geteuid()) != nullptr;
  if (const auto memory = examine_shared_memory()) facts.shared_memory_room = memory->free;
  facts.file_size_limit = file_size_limit();
  facts.terminal = describe_terminal(detect_progress_options(STDOUT_FILENO));
  return facts;
}

std::string own_program() {
  std::string program = fs::read_symlink("/proc/self/exe");
  if (is_program(program)) return program;
  constexpr std::string_view mark = " (deleted)";  // the kernel's
  if (program.ends_with(mark)) program.resize(program.size() - mark.size());
  if (is_program(program)) return program;  // another has taken its place
  throw InputError(fmt::format(
      "{}, this program's own file, was removed since it was started, so that it can't start ranks",
      program));
}

std::vector<std::string> own_words() {
  std::vector<std::string> words;
  std::ifstream arguments("/proc/self/cmdline");
  for (std::string word; std::getline(arguments, word, '\0');) words.push_back(word);
  return words;
}

std::string job_number(const EnvironmentLookup& lookup) {
  if (const auto given = lookup(job_number_variable)) return *given;
  const auto started_by = detect_launch_environment(lookup).started_by;
  using enum StartedBy;
  if (started_by != nobody && started_by != srun && started_by != pals) return {};
  if (const auto array = lookup("SLURM_ARRAY_JOB_ID"))
    return fmt::format("{}_{}", *array, lookup("SLURM_ARRAY_TASK_ID").value_or("0"));
  for (const char* const name : {"SLURM_JOB_ID", "PBS_JOBID"})
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
  return {};
}

void require_ranks(const LaunchEnvironment& environment, int requested) {
  if (requested == 0 || requested == environment.size) return;
  if (environment.is_launched()) {
    throw InputError(fmt::format(
        "-n {} asks for {}, but {} has started {}; leave -n out, or start the program without {}",
        requested, counted(requested, "rank"), environment.launcher,
        environment.size_is_known ? std::to_string(environment.size) : "this already",
        environment.launcher));
  }
  throw InputError(fmt::format("-n {}: these ranks have not been started", requested));
}

}  // namespace kolo
