#pragma once

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/comm/launcher.h"

namespace kolo {

// Exit statuses of kolo's commands (docs/use/configuration.md); 0: done.
inline constexpr int exit_failed = 1;
inline constexpr int exit_wrong_input = 2;  // nothing was begun, and nothing written
inline constexpr int exit_stopped = 75;     // EX_TEMPFAIL: on request; run again to resume

// Machine that ranks are started on, and how many.
struct Host {
  std::string name;
  int slots = 1;

  bool operator==(const Host&) const = default;
};

// Reads "a:2,b:4"; a name alone has one slot. InputError says which part is wrong.
[[nodiscard]] std::vector<Host> parse_hosts(std::string_view text);

// Reads a file with one host a line: "a:2", or "a slots=2" as for Open MPI; # begins a comment.
// Slots of a host's lines are added: a scheduler's list (PBS_NODEFILE) has a line for each slot.
[[nodiscard]] std::vector<Host> read_hostfile(const std::filesystem::path& file);

// Spreads the ranks evenly over the hosts, whatever slots they have; leaves out hosts without any.
[[nodiscard]] std::vector<Host> spread_evenly(std::vector<Host> hosts, int ranks);

[[nodiscard]] int total_slots(const std::vector<Host>& hosts);
[[nodiscard]] int most_slots(const std::vector<Host>& hosts);

// "a:2,b:4"
[[nodiscard]] std::string to_string(const std::vector<Host>& hosts);

// Ranks that the user asked for.
struct LaunchRequest {
  int ranks = 1;
  bool oversubscribe = false;        // allows more ranks than CPUs
  std::vector<std::string> command;  // run by each rank; empty: this very command line
  int threads = 0;                   // of each rank; 0: what the CPUs allow
  std::vector<Host> hosts = {};      // none: this machine, or the job's nodes
  std::vector<std::pair<std::string, std::string>> environment = {};  // more variables
  // The ranks end together, as kolo's own do, so that one that ends alone has died. Other programs
  // have failed where a rank's status isn't 0.
  bool end_together = false;
  LauncherChoice launcher = LauncherChoice::automatic;
  // Body of this program's main(), called with the words after its name by ranks that are forks of
  // this process, which saves loading the program again. The command is started where it is empty,
  // or where this process has threads that a fork would miss.
  std::function<int(const std::vector<std::string>& words)> main = {};
};

// processes: kolo itself.
enum class Launcher : std::uint8_t { processes, open_mpi_4, open_mpi_5, mpich, srun, pals };

// Tells whether it is the mpirun of Open MPI or MPICH.
[[nodiscard]] bool is_mpirun(Launcher launcher);

// Facts on which the start of ranks depends.
struct MachineFacts {
  Launcher launcher = Launcher::open_mpi_4;
  std::string program = "mpirun";  // or its path
  int cpus = 1;                    // usable ones: by affinity and the container's quota
  int cores = 1;                   // physical cores among them
  std::vector<std::vector<int>> cpus_of_cores = {};  // CPUs of each core that it may run on
  bool whole_machine = false;                        // all CPUs are usable
  bool is_root = false;
  std::string slurm_mpi = "pmix";  // how srun introduces ranks to each other
  std::vector<Host> job_hosts;     // of a PBS job that has others than this machine, else none
  std::string terminal = "0";      // describe_terminal() of the user's
  bool has_home = true;            // the environment or the system knows the user's home
  double shared_memory_room = std::numeric_limits<double>::infinity();  // bytes, where known
  std::optional<std::uint64_t> file_size_limit = {};  // bytes (ulimit -f), where there is one
  EnvironmentLookup environment = environment_variable;

  // The whole number that a variable is, or the first one of its list; 0: it has none above 0.
  [[nodiscard]] int number_in(const char* variable) const;
};

// Command that starts the ranks, and the variables that are set for it.
struct RankCommand {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> environment = {};
  bool starts_processes = false;  // the ranks are descendants of the launcher's process
  int processes = 0;  // ranks that kolo starts itself with argv; 0: argv starts the ranks
  std::vector<std::vector<int>> cpus = {};  // of each of them; none: all of this process's
};

// Threads of each rank: as requested, or else OMP_NUM_THREADS, or else an even share of the cores
// (of the node, inside a Slurm job); at most OMP_THREAD_LIMIT.
[[nodiscard]] int threads_per_rank(const LaunchRequest& request, const MachineFacts& facts);

// Spreads the ranks over a job's nodes. InputError: more ranks than CPUs, unless oversubscribe, as
// far as srun doesn't judge (a PBS job's nodes are taken to be alike); a limit of files' sizes that
// is too low for mpirun and MPI.
[[nodiscard]] RankCommand rank_command(const LaunchRequest& request, const MachineFacts& facts);

// `hosts`: some are named for the ranks. InputError: the launcher that is needed (mpirun, or srun
// inside a Slurm allocation of several nodes) is not in PATH, or kolo was built without MPI.
[[nodiscard]] MachineFacts examine_machine(const LaunchEnvironment& environment,
                                           LauncherChoice choice = LauncherChoice::automatic,
                                           bool hosts = false);

// Folders searched for programs when there is no PATH.
inline constexpr const char* default_path = "/usr/bin:/bin";

// First executable file of that name in PATH; empty: there is none.
[[nodiscard]] std::string find_in_path(const std::string& name);

// Answer to SIGINT, SIGTERM, SIGHUP and SIGUSR1, by which this process is asked to end.
struct StopPolicy {
  // Asks the ranks to stop: SIGUSR1 (kolo train), SIGUSR2, which run_rank_program() turns into
  // SIGTERM, or SIGTERM, at which mpirun kills the ranks: for those without anything to save. 0:
  // the signal as it came.
  int signal = SIGUSR1;
  // Said on stderr after the first signal's name; empty: nothing.
  std::string message = {};
};

struct JobFailure {
  int status = 0;            // the job's exit status (128 + the signal that ended it)
  bool node_failed = false;  // one of several was lost, or its ranks were ended from outside
};

// Restarts of a job that ended by itself, with a status other than 0, 2 (wrong input) and 75
// (stopped).
//
// Several nodes: a node that doesn't answer is left out until it does; one that failed in two
// attempts, because it was lost or its ranks were ended from outside, for good. The others get as
// many ranks as before where their slots allow, else fewer.
struct RestartPolicy {
  int restarts = 0;   // at most, within an hour
  int min_ranks = 0;  // of a restart; 0: as many as before
  // Tells whether the job can use so few ranks; empty: any number.
  std::function<bool(int ranks)> accepts = {};
  // Called with the next attempt, which it may change. Returns words such as "going on at step 20",
  // or none.
  std::function<std::string(LaunchRequest&)> before_restart = {};
  // Told the line that stderr shows of each restart.
  std::function<void(const std::string& message)> note = {};
  // Asked after each failure for a reason not to restart; empty: there is none.
  std::function<std::string(const JobFailure&)> objection = {};
  StopPolicy stop = {};
};

// Starts the ranks, again where the policy says so, and returns the job's exit status. The ranks
// find the number of restarts in KOLO_RESTART. Meanwhile SIGINT, SIGTERM and SIGHUP to this process
// ask the ranks to stop, and a second one ends the job at once; SIGUSR1 is passed on. Call it
// before MPI is initialized. Throws what the functions above throw.
[[nodiscard]] int run_ranks(const LaunchRequest& request, const RestartPolicy& policy = {});

// Path of this program.
[[nodiscard]] std::string own_program();

// Words that this process was started with, its name first; none where they can't be read.
[[nodiscard]] std::vector<std::string> own_words();

// Describes the job: "Slurm job 12_3, restart 1", "PBS job 7.server"; empty outside jobs.
[[nodiscard]] std::string describe_job(const EnvironmentLookup& lookup = environment_variable);

// Number of the job for names of folders, "12", "12_3" or "7" (of PBS' 7.server): the same after a
// requeue. Empty outside jobs, and for ranks of a foreign launcher, not all of which may know it.
[[nodiscard]] std::string job_number(const EnvironmentLookup& lookup = environment_variable);

// Variable by which kolo's launcher tells its ranks the job's number.
inline constexpr const char* job_number_variable = "KOLO_JOB";

// Variable that keeps the user's OMP_PROC_BIND (empty: not set) while kolo's own is "false"
// (run/begin_process.h): programs that kolo starts for the user get it back.
inline constexpr const char* openmp_binding_before = "KOLO_OMP_PROC_BIND_BEFORE";

// InputError when a launcher has started another number of ranks than the user asked for (0: any).
// Without a launcher there is one.
void require_ranks(const LaunchEnvironment& environment, int requested);

}  // namespace kolo
