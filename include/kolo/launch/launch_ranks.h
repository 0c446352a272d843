#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/launch/hosts.h"
#include "kolo/launch/launch_environment.h"

namespace kolo {

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
};

enum class Launcher : std::uint8_t { open_mpi_4, open_mpi_5, mpich, srun, pals };

// What starting ranks depends on.
struct MachineFacts {
  Launcher launcher = Launcher::open_mpi_4;
  std::string program = "mpirun";  // or its path
  int cpus = 1;                    // this process may use: its affinity, the container's quota
  int cores = 1;                   // physical cores among them
  bool whole_machine = false;      // neither affinity nor quota keeps it from any CPU
  bool is_root = false;
  std::string slurm_mpi = "pmix";  // how srun introduces ranks to each other
  std::vector<Host> job_hosts;     // of a PBS job that has others than this machine, else none
  std::string terminal = "0";      // describe_terminal() of what the user sees
  EnvironmentLookup environment = environment_variable;
};

// How the ranks are started: the command, and the variables that are set for it.
struct RankCommand {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> environment;
  bool starts_processes = false;  // the ranks are descendants of the launcher's process
};

// Threads of each rank: what was asked for, or else the user's OMP_NUM_THREADS, or else an even
// share of the cores (of the node, inside a Slurm job).
[[nodiscard]] int threads_per_rank(const LaunchRequest& request, const MachineFacts& facts);

// Inside a job the ranks are spread over its nodes. InputError: more ranks than CPUs (of this
// machine, to which a PBS job's others are taken to be alike), unless oversubscribe. Inside a Slurm
// allocation srun judges.
[[nodiscard]] RankCommand rank_command(const LaunchRequest& request, const MachineFacts& facts);

// InputError: no mpirun (or, inside a Slurm allocation, srun) in PATH; names the package.
[[nodiscard]] MachineFacts examine_machine(const LaunchEnvironment& environment);

// The first executable file of that name in PATH; empty when there is none.
[[nodiscard]] std::string find_in_path(const std::string& name);

// What happens when this process is asked to end, by SIGINT, SIGTERM, SIGHUP or SIGUSR1.
struct StopPolicy {
  // Asks the ranks to stop: SIGUSR1, which ranks of kolo train understand, or SIGUSR2, which
  // run_rank_program() makes a SIGTERM of. mpirun passes both on and lets the ranks finish. At
  // SIGTERM it kills them, which is right where they have nothing to save. 0: the signal as it
  // came.
  int signal = SIGUSR1;
  // Said on stderr, after the signal's name, when the first one comes; empty: nothing.
  std::string message = {};
};

// What happens when a job fails: it ends with a status other than 0, 2 (wrong input) and 75
// (stopped on request), and nobody has asked it to end.
struct RestartPolicy {
  int restarts = 0;  // at most
  // May change what is started, and write down the message, which has been shown on stderr.
  std::function<void(LaunchRequest&, const std::string& message)> before_restart = {};
  // Asked after each failure, with its status: why starting it again is of no use; empty: it may
  // be.
  std::function<std::string(int status)> objection = {};
  StopPolicy stop = {};
};

// Starts the ranks, again where the policy says so, and returns the job's exit status, which is
// this process's. The ranks find the number of restarts in KOLO_RESTART. Meanwhile SIGINT, SIGTERM
// and SIGHUP to this process ask the ranks to stop, and a second one ends the job at once; SIGUSR1
// is passed on as it is. Call it before MPI is initialized. Throws what the functions above throw.
[[nodiscard]] int run_ranks(const LaunchRequest& request, const RestartPolicy& policy = {});

// This program's own path.
[[nodiscard]] std::string own_program();

}  // namespace kolo
