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

#include "kolo/run/launch_environment.h"

namespace kolo {

// What kolo's commands end with, as docs/configuration.md tells; 0: done.
inline constexpr int exit_failed = 1;
inline constexpr int exit_wrong_input = 2;  // nothing was begun, and nothing written
inline constexpr int exit_stopped = 75;     // EX_TEMPFAIL: on request; run again to go on

// A machine that ranks are started on, and how many.
struct Host {
  std::string name;
  int slots = 1;

  bool operator==(const Host&) const = default;
};

// "a:2,b:4"; a name alone has one slot. InputError says which part is wrong.
[[nodiscard]] std::vector<Host> parse_hosts(std::string_view text);

// A file with one host a line: "a:2", or "a slots=2" as for Open MPI; from # on a comment.
[[nodiscard]] std::vector<Host> read_hostfile(const std::filesystem::path& file);

// A scheduler's list of a job's hosts (PBS_NODEFILE): a line for each slot, so a host may come
// several times; in the order of their first lines.
[[nodiscard]] std::vector<Host> read_nodefile(const std::filesystem::path& file);

// So many ranks as evenly as possible over these hosts, whatever slots they have; hosts that get
// none are left out.
[[nodiscard]] std::vector<Host> spread_evenly(std::vector<Host> hosts, int ranks);

// Of all hosts.
[[nodiscard]] int total_slots(const std::vector<Host>& hosts);
[[nodiscard]] int most_slots(const std::vector<Host>& hosts);

// "a:2,b:4"
[[nodiscard]] std::string to_string(const std::vector<Host>& hosts);

// What the user asked for.
struct LaunchRequest {
  int ranks = 1;
  bool oversubscribe = false;        // more ranks than CPUs are fine
  std::vector<std::string> command;  // what each rank runs; empty: this very command line
  int threads = 0;                   // of each rank; 0: what the CPUs allow
  std::vector<Host> hosts = {};      // where; none: on this machine, or anywhere in the job
  std::vector<std::pair<std::string, std::string>> environment = {};  // more variables
  // The ranks end together, whatever their status, because MPI makes them: so kolo's own do. One
  // that ends alone has died, and with others a status other than 0 is what tells.
  bool end_together = false;
  LauncherChoice launcher = LauncherChoice::automatic;
  // Body of this program's main(), called with the words after its name: a rank that is a process
  // of this machine is a fork of this one and calls it, which saves loading the program again.
  // Empty, or where this process has threads that a fork would miss: the command is started.
  std::function<int(const std::vector<std::string>& words)> main = {};
};

// processes: kolo itself.
enum class Launcher : std::uint8_t { processes, open_mpi_4, open_mpi_5, mpich, srun, pals };

// What starting ranks depends on.
struct MachineFacts {
  Launcher launcher = Launcher::open_mpi_4;
  std::string program = "mpirun";  // or its path
  int cpus = 1;                    // this process may use: its affinity, the container's quota
  int cores = 1;                   // physical cores among them
  std::vector<std::vector<int>> cpus_of_cores = {};  // CPUs of each core that it may run on
  bool whole_machine = false;  // neither affinity nor quota keeps it from any CPU
  bool is_root = false;
  std::string slurm_mpi = "pmix";  // how srun introduces ranks to each other
  std::vector<Host> job_hosts;     // of a PBS job that has others than this machine, else none
  std::string terminal = "0";      // describe_terminal() of what the user sees
  bool has_home = true;            // the environment or the system says what the user's home is
  double shared_memory_room = std::numeric_limits<double>::infinity();  // bytes, where known
  std::optional<std::uint64_t> file_size_limit = {};  // bytes (ulimit -f), where there is one
  EnvironmentLookup environment = environment_variable;
};

// How the ranks are started: the command, and the variables that are set for it.
struct RankCommand {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> environment;
  bool starts_processes = false;  // the ranks are descendants of the launcher's process
  int processes = 0;  // ranks, each of which kolo starts itself with argv; 0: argv starts them
  std::vector<std::vector<int>> cpus = {};  // of each of these; none: all of this process's
};

// Threads of each rank: what was asked for, or else the user's OMP_NUM_THREADS, or else an even
// share of the cores (of the node, inside a Slurm job); not more than OMP_THREAD_LIMIT.
[[nodiscard]] int threads_per_rank(const LaunchRequest& request, const MachineFacts& facts);

// Inside a job the ranks are spread over its nodes. InputError: more ranks than CPUs (of this
// machine, to which a PBS job's others are taken to be alike), unless oversubscribe; a limit of
// files' sizes below what mpirun and MPI need. Inside a Slurm allocation srun judges.
[[nodiscard]] RankCommand rank_command(const LaunchRequest& request, const MachineFacts& facts);

// `choice`: who is to start the ranks; `hosts`: whether hosts are named for them. InputError: no
// mpirun (or, inside a Slurm allocation of several nodes, srun) in PATH where it is needed; names
// the package. Or MPI's launcher is needed, and kolo was built without MPI.
[[nodiscard]] MachineFacts examine_machine(const LaunchEnvironment& environment,
                                           LauncherChoice choice = LauncherChoice::automatic,
                                           bool hosts = false);

// Where programs are looked for when there is no PATH.
inline constexpr const char* default_path = "/usr/bin:/bin";

// The first executable file of that name in PATH; empty when there is none.
[[nodiscard]] std::string find_in_path(const std::string& name);

// What happens when this process is asked to end, by SIGINT, SIGTERM, SIGHUP or SIGUSR1.
struct StopPolicy {
  // Asks the ranks to stop: SIGUSR1, which ranks of kolo train understand, or SIGUSR2, of which
  // run_rank_program() makes a SIGTERM. mpirun passes both on; at SIGTERM it kills the ranks, which
  // is right where they have nothing to save. 0: the signal as it came.
  int signal = SIGUSR1;
  // Said on stderr, after the signal's name, when the first one comes; empty: nothing.
  std::string message = {};
};

// How a job has failed.
struct JobFailure {
  int status = 0;            // its exit status (128 + the signal that ended it)
  bool node_failed = false;  // of several nodes one was lost, or its ranks were ended from outside
};

// Restarts of a job that ended with a status other than 0, 2 (wrong input) and 75 (stopped),
// unasked.
//
// On several nodes it is started on those that are left: a node that does not answer is left out
// until it does, one that was lost or whose ranks were ended from outside in two attempts for good;
// with as many ranks as before where they fit into the slots, else fewer.
struct RestartPolicy {
  int restarts = 0;   // at most, within an hour
  int min_ranks = 0;  // at least so many ranks are started again; 0: as many as before
  // Whether fewer ranks are of use, by their number; empty: any number is.
  std::function<bool(int ranks)> accepts = {};
  // May change what is started, whose ranks and hosts are those of the new attempt. Returns from
  // where it goes on: "going on at step 20"; may be empty.
  std::function<std::string(LaunchRequest&)> before_restart = {};
  // Is told what an attempt does, in one line that has been shown on stderr: why it is started,
  // with which ranks, where, and from where it goes on.
  std::function<void(const std::string& message)> note = {};
  // Asked after each failure: why starting it again is of no use; empty: it may be.
  std::function<std::string(const JobFailure&)> objection = {};
  StopPolicy stop = {};
};

// Starts the ranks, again where the policy says so, and returns the job's exit status, which is
// this process's. The ranks find the number of restarts in KOLO_RESTART. Meanwhile SIGINT, SIGTERM
// and SIGHUP to this process ask the ranks to stop, and a second one ends the job at once; SIGUSR1
// is passed on as it is. Call it before MPI is initialized. Throws what the functions above throw.
[[nodiscard]] int run_ranks(const LaunchRequest& request, const RestartPolicy& policy = {});

// This program's own path.
[[nodiscard]] std::string own_program();

// The words that this process was started with, the first of which is what it was called by; none
// where they cannot be read.
[[nodiscard]] std::vector<std::string> own_words();

}  // namespace kolo
