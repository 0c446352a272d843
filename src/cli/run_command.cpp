#include <csignal>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/error.h"
#include "kolo/run/launch_ranks.h"
#include "run/launch/rank_output.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

struct RunArguments {
  std::optional<int> ranks;
  HostOptions hosts;
  std::string logs;
  int max_restarts = 0;
  std::string launcher = "mpi";
  bool oversubscribe = false;
  bool as_rank = false;  // this process runs one rank's program
  std::vector<std::string> program;
};

// File of the program, as `execvp` would find it. InputError if there is none.
std::string find_program(const std::string& name) {
  std::error_code error;
  if (name.find('/') == std::string::npos) {
    if (auto path = find_in_path(name); !path.empty()) return path;
    throw InputError(fmt::format(
        "run: there is no program {} in PATH; for one in this folder write ./{}", name, name));
  }
  if (!fs::exists(name, error)) throw InputError(fmt::format("run: there is no program {}", name));
  if (!fs::is_regular_file(name, error) || ::access(name.c_str(), X_OK) != 0)
    throw InputError(fmt::format("run: {} is not an executable file", name));
  return fs::absolute(name).lexically_normal();
}

std::vector<std::string> require_program(const RunArguments& arguments) {
  auto program = arguments.program;
  if (program.empty()) throw InputError("run: name the program to run; see kolo run --help");
  if (program[0].starts_with('-')) {
    throw InputError(fmt::format(
        "run: unknown option {}; kolo's options come before the program, see kolo run --help",
        program[0]));
  }
  program[0] = find_program(program[0]);
  return program;
}

int as_rank(const RunArguments& arguments, std::vector<std::string> command) {
  const auto environment = detect_launch_environment();
  RankProgram program{.command = std::move(command),
                      .rank = environment.rank,
                      .tag = environment.size > 1 || !environment.size_is_known};
  if (!arguments.logs.empty()) {
    const auto restart = environment_variable("KOLO_RESTART").value_or("0");
    program.log =
        fs::path(arguments.logs) /
        fmt::format("rank-{:04}{}.log", program.rank, restart == "0" ? "" : ".restart-" + restart);
  }
  return run_rank_program(program);
}

int default_ranks(const std::vector<Host>& hosts, const MachineFacts& machine) {
  if (!hosts.empty()) return total_slots(hosts);
  if (machine.launcher == Launcher::srun) {
    const auto tasks = std::atoi(environment_variable("SLURM_NTASKS").value_or("0").c_str());
    if (tasks > 0) return tasks;
  }
  if (!machine.job_hosts.empty()) return total_slots(machine.job_hosts);
  return machine.cores;
}

int run(const RunArguments& arguments) {
  auto program = require_program(arguments);
  if (arguments.as_rank) return as_rank(arguments, std::move(program));
  const auto environment = detect_launch_environment();
  if (environment.is_launched()) {
    throw InputError(fmt::format("run: {} has started this already; start kolo run without it",
                                 environment.launcher));
  }
  LaunchRequest request{.oversubscribe = arguments.oversubscribe,
                        .hosts = arguments.hosts.read(),
                        .launcher = named<LauncherChoice>("run", "--launcher", arguments.launcher),
                        .main = [](const auto& words) { return run_program(words); }};
  const auto machine = examine_machine(environment, request.launcher, !request.hosts.empty());
  request.ranks = arguments.ranks.value_or(default_ranks(request.hosts, machine));
  request.command = {own_program(), "run", "--as-rank"};
  (void)rank_command(request, machine);  // what can't be started makes no folder
  if (!arguments.logs.empty()) {
    require_writable_folder("run: --logs", arguments.logs);
    fs::create_directories(arguments.logs);
    request.command.insert(request.command.end(), {"--logs", fs::absolute(arguments.logs)});
  }
  request.command.insert(request.command.end(), program.begin(), program.end());
  const bool is_tagged = arguments.logs.empty() && request.ranks > 1;
  if (is_tagged)
    request.environment.emplace_back("KOLO_TERMINAL", "0");  // no progress bars in there
  return run_ranks(request, {.restarts = arguments.max_restarts, .stop = {.signal = SIGUSR2}});
}

}  // namespace

void add_run_command(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<RunArguments>();
  CLI::App* const command = app.add_subcommand("run", "Start ranks of any program, as train does");
  command->prefix_command();
  add_number_option(*command, "-n,--ranks RANKS", arguments->ranks, {1, most_ranks},
                    "Number of ranks (default: all slots or cores)");
  add_host_options(*command, arguments->hosts);
  add_choice_option(
      *command, "--launcher", arguments->launcher, known_names<LauncherChoice>(),
      "processes: without MPI, for programs that call kolo::initialize() (default: mpi)");
  command->add_flag("--oversubscribe", arguments->oversubscribe,
                    "Allow more ranks than cores or slots");
  add_number_option(*command, "--max-restarts TIMES", arguments->max_restarts, {0, most_restarts},
                    "Start all ranks again when one fails, this often within an hour");
  add_text_option(*command, "--logs DIR", arguments->logs, "a folder",
                  "Write the output of each rank to DIR/rank-0003.log instead");
  command->add_flag("--as-rank", arguments->as_rank)->group("");
  command->footer(
      "Options of kolo come first, then PROGRAM ARGUMENTS..., also after a --\n"
      "Each line of output begins with its [rank]. Ranks share the cores, and OMP_NUM_THREADS is "
      "set to match. The program need not use MPI.\n\n"
      "Ctrl-C or SIGTERM reaches the ranks as one SIGTERM; a second one kills them. SIGUSR1 is "
      "passed on. KOLO_RESTART tells restarted ranks the number of restarts.\n\n"
      "Examples:\n"
      "  kolo run -n 4 ./my_training --epochs 10\n"
      "  kolo run --hosts node1:2,node2:2 --logs logs ./my_training\n"
      "  kolo run -n 4 --max-restarts 3 ./my_training --resume\n\n"
      "Exit status: the ranks', or 128 + the signal that ended one; 2 wrong input. A job that ends "
      "with 0, 2 or 75 is not started again.");
  command->callback([arguments, command, &chosen] {
    arguments->program = command->remaining();
    chosen.action = [arguments] { return run(*arguments); };
  });
}

}  // namespace kolo
