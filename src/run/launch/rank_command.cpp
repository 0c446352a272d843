#include "kolo/run/launch_ranks.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include <fmt/format.h>

#include "base/openmp.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/comm/launcher.h"
#include "run/launch/launch_advice.h"

namespace kolo {

namespace {

Host parse_host(std::string_view text, const std::string& where) {
  const auto colon = text.rfind(':');
  Host host{std::string(text.substr(0, colon))};
  if (colon != text.npos) host.slots = parse_number<int>(text.substr(colon + 1)).value_or(0);
  if (host.name.empty() || host.slots < 1) {
    throw InputError(
        fmt::format("{}: \"{}\" is no host; write NAME:SLOTS, for example node1:4", where, text));
  }
  return host;
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view text) {
  std::vector<Host> hosts;
  while (true) {
    const auto comma = text.find(',');
    hosts.push_back(parse_host(text.substr(0, comma), "--hosts"));
    if (comma == text.npos) return hosts;
    text.remove_prefix(comma + 1);
  }
}

std::vector<Host> read_hostfile(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    throw InputError(fmt::format("--hostfile {}: there is no such file", file.string()));
  std::vector<Host> hosts;
  std::istringstream lines(read_text_file(file));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, slots, surplus;
    if (!(words >> name)) continue;
    words >> slots;
    const auto where = fmt::format("{}:{}", file.string(), number);
    const bool is_known = slots.empty() || slots.starts_with("slots=");
    if (!is_known || words >> surplus) {
      throw InputError(fmt::format("{}: \"{}\" is not understood; write NAME:SLOTS or NAME slots=N",
                                   where, is_known ? surplus : slots));
    }
    const auto host = parse_host(slots.empty() ? name : name + ":" + slots.substr(6), where);
    const auto known = std::ranges::find(hosts, host.name, &Host::name);
    if (known == hosts.end())
      hosts.push_back(host);
    else
      known->slots = checked_add(known->slots, host.slots);
  }
  if (hosts.empty()) throw InputError(fmt::format("{} names no host", file.string()));
  return hosts;
}

std::vector<Host> spread_evenly(std::vector<Host> hosts, int ranks) {
  const int count = narrow<int>(hosts.size());
  for (int i = 0; i < count; ++i)
    hosts[static_cast<std::size_t>(i)].slots = ranks / count + (i < ranks % count ? 1 : 0);
  std::erase_if(hosts, [](const Host& host) { return host.slots == 0; });
  return hosts;
}

bool is_mpirun(Launcher launcher) {
  return launcher == Launcher::open_mpi_4 || launcher == Launcher::open_mpi_5 ||
         launcher == Launcher::mpich;
}

int total_slots(const std::vector<Host>& hosts) {
  int sum = 0;
  for (const Host& host : hosts) sum = checked_add(sum, host.slots);
  return sum;
}

int most_slots(const std::vector<Host>& hosts) {
  int most = 0;
  for (const Host& host : hosts) most = std::max(most, host.slots);
  return most;
}

std::string to_string(const std::vector<Host>& hosts) {
  std::vector<std::string> words;
  for (const Host& host : hosts) words.push_back(fmt::format("{}:{}", host.name, host.slots));
  return join(words, ",");
}

namespace {

bool is_open_mpi(const MachineFacts& facts) {
  return is_mpirun(facts.launcher) && facts.launcher != Launcher::mpich;
}

int ranks_per_node(const LaunchRequest& request, const MachineFacts& facts) {
  if (request.hosts.empty() && !facts.job_hosts.empty())
    return most_slots(spread_evenly(facts.job_hosts, request.ranks));
  if (!request.hosts.empty()) return std::min(request.ranks, most_slots(request.hosts));
  if (facts.launcher != Launcher::srun) return request.ranks;
  const int nodes = std::max(1, facts.number_in("SLURM_JOB_NUM_NODES"));
  return divide_up(request.ranks, nodes);
}

void require_cpus(const LaunchRequest& request, const MachineFacts& facts) {
  if (request.oversubscribe || ranks_per_node(request, facts) <= facts.cpus) return;
  const int most = facts.cpus * std::max(1, narrow<int>(facts.job_hosts.size()));
  throw InputError(fmt::format(
      "-n {}: this machine lets the program use {}; ask for at most {}{}, or add --oversubscribe "
      "to have ranks share CPUs (slow)",
      request.ranks, counted(facts.cpus, "CPU"), counted(most, "rank"),
      facts.job_hosts.empty() ? "" : " on the job's nodes"));
}

void require_slots(const LaunchRequest& request) {
  const int slots = total_slots(request.hosts);
  if (request.oversubscribe || request.ranks <= slots) return;
  throw InputError(
      fmt::format("-n {}: the hosts {} have {}; ask for at most so many ranks, or give the hosts "
                  "more slots",
                  request.ranks, to_string(request.hosts), counted(slots, "slot")));
}

// Keeps Open MPI from the machine's networks, as all ranks are here: TCP interfaces may not reach
// each other, and ofi takes a second to end in Open MPI 4.1. Where memory can't be shared, messages
// go through the loopback interface, which is slower.
void add_transport(std::vector<std::string>& argv, const LaunchRequest& request,
                   const MachineFacts& facts) {
  if (facts.environment("OMPI_MCA_btl")) return;
  if (facts.shared_memory_room >= request.ranks * shared_memory_per_rank)
    argv.insert(argv.end(), {"--mca", "btl", "^tcp,ofi,openib,uct,usnic"});
  else
    argv.insert(argv.end(), {"--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"});
}

// Cores of this node that Slurm has granted, even if it doesn't bind the job's script to them; no
// limit without a job.
int cores_of_slurm(const MachineFacts& facts) {
  const bool asks_slurm = facts.launcher == Launcher::srun || facts.launcher == Launcher::processes;
  const int granted = asks_slurm ? facts.number_in("SLURM_CPUS_ON_NODE") : 0;
  return granted > 0 ? granted : std::numeric_limits<int>::max();
}

// Tells whether each rank is bound to its share of the cores: memory stays near it, and its helper
// threads (communication, loading) have room. mpirun counts from the machine's first core, so it
// can't bind where this process may use some of the CPUs only, perhaps beside other jobs.
bool are_bound(const LaunchRequest& request, const MachineFacts& facts) {
  if (facts.launcher == Launcher::srun || facts.launcher == Launcher::pals) return true;
  // kolo binds to the cores that this process may use, unless only their time is limited.
  if (facts.launcher == Launcher::processes)
    return request.ranks <= facts.cores && std::ssize(facts.cpus_of_cores) == facts.cores &&
           cores_of_slurm(facts) >= facts.cores;
  // Assumes other hosts to be alike.
  return facts.whole_machine && ranks_per_node(request, facts) <= facts.cores;
}

std::vector<std::string> binding(const LaunchRequest& request, const MachineFacts& facts) {
  if (!are_bound(request, facts)) return {"--bind-to", "none"};
  return {"--map-by", fmt::format("slot:PE={}", facts.cores / ranks_per_node(request, facts)),
          "--bind-to", "core:if-supported"};
}

// Makes mpirun notice a silent node (no power, no network) after 11 seconds instead of 8 minutes,
// in which it wouldn't end on request either.
void add_keepalive(std::vector<std::string>& argv, const MachineFacts& facts) {
  for (const auto& [name, value] :
       {std::pair{"oob_tcp_keepalive_time", "5"}, std::pair{"oob_tcp_keepalive_intvl", "2"},
        std::pair{"oob_tcp_keepalive_probes", "3"}}) {
    if (!facts.environment(fmt::format("OMPI_MCA_{}", name).c_str()))
      argv.insert(argv.end(), {"--mca", name, value});
  }
}

std::vector<std::string> open_mpi(const LaunchRequest& request, const MachineFacts& facts) {
  std::vector<std::string> argv = {facts.program};
  if (facts.is_root) argv.emplace_back("--allow-run-as-root");
  // The slots keep mpirun from counting the machine's cores in its own way.
  argv.insert(argv.end(),
              {"--host", request.hosts.empty() ? fmt::format("localhost:{}", request.ranks)
                                               : to_string(request.hosts)});
  const auto bound = binding(request, facts);
  argv.insert(argv.end(), bound.begin(), bound.end());
  if (ranks_per_node(request, facts) > facts.cpus)
    argv.insert(argv.end(), {"--mca", "mpi_yield_when_idle", "1"});
  if (facts.launcher == Launcher::open_mpi_4 && request.hosts.size() > 1)
    add_keepalive(argv, facts);
  if (request.hosts.empty()) add_transport(argv, request, facts);
  argv.insert(argv.end(), {"-n", std::to_string(request.ranks)});
  return argv;
}

std::vector<std::string> mpich(const LaunchRequest& request, const MachineFacts& facts) {
  std::vector<std::string> argv = {facts.program};
  const int ranks = ranks_per_node(request, facts);
  if (!request.hosts.empty()) argv.insert(argv.end(), {"-hosts", to_string(request.hosts)});
  if (are_bound(request, facts)) {
    argv.insert(argv.end(), {"-bind-to", fmt::format("core:{}", facts.cores / ranks)});
  }
  argv.insert(argv.end(), {"-n", std::to_string(request.ranks)});
  return argv;
}

std::vector<std::string> names_of(const std::vector<Host>& hosts) {
  std::vector<std::string> names;
  for (const Host& host : hosts) names.push_back(host.name);
  return names;
}

std::vector<std::string> srun(const LaunchRequest& request, const MachineFacts& facts) {
  // The site's default of --mpi may start as many jobs of one rank. A failed rank ends all, but the
  // first rank to stop on request (status 75) must not.
  std::vector<std::string> argv = {
      facts.program, fmt::format("--mpi={}", facts.slurm_mpi),
      fmt::format("--ntasks={}", request.ranks),
      fmt::format("--cpus-per-task={}", threads_per_rank(request, facts)), "--quiet"};
  if (request.end_together)
    argv.insert(argv.end(), {"--kill-on-bad-exit=0", "--wait=10"});
  else
    argv.emplace_back("--kill-on-bad-exit=1");
  if (request.hosts.empty()) return argv;
  argv.push_back("--nodelist=" + join(names_of(request.hosts), ","));
  argv.push_back(fmt::format("--nodes={}", request.hosts.size()));
  argv.push_back(fmt::format("--ntasks-per-node={}", most_slots(request.hosts)));
  return argv;
}

// Binds always: machines with PALS give jobs whole nodes.
std::vector<std::string> pals(const LaunchRequest& request, const MachineFacts& facts,
                              const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> argv = {facts.program,
                                   "-n",
                                   std::to_string(request.ranks),
                                   "--ppn",
                                   std::to_string(ranks_per_node(request, facts)),
                                   "--depth",
                                   std::to_string(threads_per_rank(request, facts)),
                                   "--cpu-bind",
                                   "depth"};
  for (const auto& [name, value] : variables)
    argv.insert(argv.end(), {"--env", fmt::format("{}={}", name, value)});
  if (request.hosts.empty()) return argv;
  argv.insert(argv.end(), {"--hosts", join(names_of(request.hosts), ",")});
  return argv;
}

std::vector<std::string> launcher_arguments(const LaunchRequest& request, const MachineFacts& facts,
                                            const RankCommand& command) {
  switch (facts.launcher) {
    case Launcher::open_mpi_4:
    case Launcher::open_mpi_5:
      return open_mpi(request, facts);
    case Launcher::mpich:
      return mpich(request, facts);
    case Launcher::pals:
      return pals(request, facts, command.environment);
    case Launcher::processes:
      return {};
    case Launcher::srun:
      break;
  }
  auto argv = srun(request, facts);
  if (request.oversubscribe) argv.emplace_back("--overcommit");
  return argv;
}

// CPUs of each rank: an equal number of whole cores.
std::vector<std::vector<int>> cpus_of_ranks(const LaunchRequest& request,
                                            const MachineFacts& facts) {
  if (!are_bound(request, facts)) return {};
  const int cores = facts.cores / request.ranks;
  std::vector<std::vector<int>> all;
  for (int rank = 0; rank < request.ranks; ++rank) {
    auto& cpus = all.emplace_back();
    for (int core = rank * cores; core < (rank + 1) * cores; ++core) {
      const auto& of_core = facts.cpus_of_cores[static_cast<std::size_t>(core)];
      cpus.insert(cpus.end(), of_core.begin(), of_core.end());
    }
  }
  return all;
}

int threads_wanted(const LaunchRequest& request, const MachineFacts& facts) {
  if (request.threads > 0) return request.threads;
  if (const auto wanted = openmp_threads_in(facts.environment("OMP_NUM_THREADS").value_or("")))
    return *wanted;
  if (facts.launcher == Launcher::srun) {
    if (const int granted = facts.number_in("SLURM_CPUS_PER_TASK")) return granted;
  }
  const int cores = std::min(facts.cores, cores_of_slurm(facts));
  return std::max(1, cores / ranks_per_node(request, facts));
}

// Adds variables that launchers need: Open MPI's mpirun looks for ssh in PATH even without other
// hosts, and crashes where the user's home is unknown; hwloc must not look up names of displays.
void add_missing_variables(RankCommand& command, const MachineFacts& facts) {
  if (!facts.environment("PATH")) command.environment.emplace_back("PATH", default_path);
  if (!facts.has_home) command.environment.emplace_back("HOME", "/nonexistent");
  if (is_mpirun(facts.launcher) && !facts.environment(hwloc_components))
    command.environment.emplace_back(hwloc_components, hwloc_without_displays);
}

}  // namespace

int MachineFacts::number_in(const char* variable) const {
  const auto text = environment(variable).value_or("");
  return std::max(0, parse_number<int>(text.substr(0, text.find_first_of(", "))).value_or(0));
}

int threads_per_rank(const LaunchRequest& request, const MachineFacts& facts) {
  const int wanted = threads_wanted(request, facts);
  const int limit = facts.number_in("OMP_THREAD_LIMIT");
  return limit > 0 ? std::min(wanted, limit) : wanted;
}

RankCommand rank_command(const LaunchRequest& wish, const MachineFacts& facts) {
  if (wish.ranks < 1) {
    throw InputError(fmt::format("-n {}: at least one rank is needed", wish.ranks));
  }
  if (!wish.hosts.empty())
    require_slots(wish);
  else if (facts.launcher != Launcher::srun)
    require_cpus(wish, facts);
  if (facts.launcher != Launcher::srun)
    require_room_for_shared_memory("-n", facts.file_size_limit, "start one rank, without -n");
  LaunchRequest request = wish;
  if (wish.hosts.empty() && !facts.job_hosts.empty() && facts.launcher != Launcher::pals)
    request.hosts = spread_evenly(facts.job_hosts, wish.ranks);
  RankCommand command;
  const auto threads = std::to_string(threads_per_rank(request, facts));
  command.environment = {
      {"OMP_NUM_THREADS", threads}, {"KOLO_TERMINAL", facts.terminal}, {"KOLO_LAUNCHED", "1"}};
  // OpenBLAS has its own threads.
  if (!facts.environment("OPENBLAS_NUM_THREADS"))
    command.environment.emplace_back("OPENBLAS_NUM_THREADS", threads);
  // OpenMP would bind the threads of unbound ranks to the same CPUs.
  if (facts.environment(openmp_binding_before) && !are_bound(request, facts) &&
      ranks_per_node(request, facts) > 1)
    command.environment.emplace_back(openmp_binding_before, "false");
  add_missing_variables(command, facts);
  for (const auto& variable : request.environment) {
    std::erase_if(command.environment,
                  [&](const auto& other) { return other.first == variable.first; });
    command.environment.push_back(variable);
  }
  command.argv = launcher_arguments(request, facts, command);
  if (facts.launcher == Launcher::processes) {
    command.processes = request.ranks;
    command.cpus = cpus_of_ranks(request, facts);
  }
  command.starts_processes = request.hosts.empty() && is_mpirun(facts.launcher);
  if (!request.hosts.empty() && is_open_mpi(facts)) {
    // Open MPI passes only named variables to other hosts.
    for (const auto& variable : command.environment)
      command.argv.insert(command.argv.end(), {"-x", variable.first});
  }
  command.argv.insert(command.argv.end(), request.command.begin(), request.command.end());
  return command;
}

}  // namespace kolo
