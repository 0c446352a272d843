#include "run/launch/job_nodes.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <sstream>
#include <thread>

#include "kolo/base/checked.h"
#include "kolo/base/clock.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"
#include "run/launch/child.h"

namespace kolo {

namespace {

constexpr int most_failures = 2;  // of a node; then it is left out

// Shortens "n2.cluster.org" to "n2"; keeps addresses.
std::string_view short_name(std::string_view name) {
  const bool is_address = name.find_first_not_of("0123456789.:") == name.npos;
  return is_address ? name : name.substr(0, name.find('.'));
}

bool is_this_machine(std::string_view name) {
  return name == "localhost" || name == "127.0.0.1" || short_name(name) == short_name(host_name());
}

// Fills the hosts' slots with ranks, one host after another; leaves out hosts that get none.
std::vector<Host> fill(std::vector<Host> hosts, int ranks) {
  for (Host& host : hosts) {
    host.slots = std::min(host.slots, ranks);
    ranks -= host.slots;
  }
  std::erase_if(hosts, [](const Host& host) { return host.slots == 0; });
  return hosts;
}

}  // namespace

std::string JobNodes::known_as(const std::string& name) const {
  for (const Host& host : hosts_)
    if (host.name == name) return host.name;
  for (const Host& host : hosts_) {
    if (short_name(host.name) == short_name(name)) return host.name;
    if (is_this_machine(host.name) && is_this_machine(name)) return host.name;
  }
  return {};
}

bool JobNodes::is_excluded(const std::string& name) const {
  const auto found = failures_.find(name);
  return found != failures_.end() && found->second >= most_failures;
}

std::vector<Host> JobNodes::candidates() const {
  auto hosts = hosts_;
  std::erase_if(hosts, [&](const Host& host) { return is_excluded(host.name); });
  return hosts;
}

bool JobNodes::note_failure(const HostsInTrouble& trouble, const std::set<std::string>& silent) {
  if (!are_several()) return false;
  std::set<std::string> failed;
  // A node that was left out because it didn't answer has not failed again.
  for (const auto& name : silent)
    if (!silent_.contains(name)) failed.insert(name);
  for (const auto& name : trouble.lost) failed.insert(known_as(name));
  failed.insert(known_as(trouble.rank_killed));
  failed.erase("");
  for (const auto& name : failed) ++failures_[name];
  silent_ = silent;
  return !failed.empty();
}

std::vector<Host> JobNodes::left() const {
  auto hosts = candidates();
  std::erase_if(hosts, [&](const Host& host) { return silent_.contains(host.name); });
  return hosts;
}

NextRanks JobNodes::next_ranks(int wanted, int least,
                               const std::function<bool(int ranks)>& accepts) const {
  const auto hosts = left();
  if (hosts.size() == hosts_.size()) return {wanted, {}};
  const int most = std::min(wanted, total_slots(hosts));
  for (int ranks = most; ranks >= std::max(1, least); --ranks)
    if (ranks == wanted || accepts(ranks)) return {ranks, fill(hosts, ranks)};
  return {};
}

std::string JobNodes::describe_left_out() const {
  std::vector<std::string> words;
  for (const Host& host : hosts_) {
    if (is_excluded(host.name))
      words.push_back(host.name + " (has failed twice)");
    else if (silent_.contains(host.name))
      words.push_back(host.name + " (does not answer)");
  }
  return join(words, ", ");
}

namespace {

constexpr auto longest_trial = std::chrono::seconds(10);
constexpr double most_seconds_to_ask_again = 10;

// Asks Slurm's own tool, because "n[1-3,7]" has many forms.
std::vector<Host> slurm_nodes(const MachineFacts& facts) {
  const auto list = facts.environment("SLURM_JOB_NODELIST").value_or("");
  if (list.empty()) return {};
  const auto names = probe({.argv = {"scontrol", "show", "hostnames", list}}, longest_trial);
  const auto tasks = facts.environment("SLURM_TASKS_PER_NODE").value_or("");
  std::vector<Host> hosts;
  std::istringstream words(names.status == 0 ? names.output : "");
  for (std::string name; words >> name;) {
    const int number = narrow<int>(hosts.size());
    hosts.push_back({name, std::max(1, slurm_tasks_on_node(tasks, number).value_or(1))});
  }
  return hosts;
}

}  // namespace

std::vector<Host> nodes_of_job(const LaunchRequest& request, const MachineFacts& facts) {
  auto hosts = request.hosts;
  if (hosts.empty())
    hosts = facts.launcher == Launcher::srun ? slurm_nodes(facts) : facts.job_hosts;
  if (hosts.size() < 2) return {};
  // The user's list of hosts has the right slots, unless ranks share them (--oversubscribe); a
  // scheduler's often has one for each node.
  if (!request.hosts.empty() && request.ranks <= total_slots(hosts)) return hosts;
  const int count = narrow<int>(hosts.size());
  const int share = divide_up(request.ranks, count);
  for (Host& host : hosts) host.slots = std::max(host.slots, share);
  return hosts;
}

RankCommand trial_command(std::vector<Host> hosts, const MachineFacts& facts) {
  for (Host& host : hosts) host.slots = 1;
  auto unbound = facts;
  unbound.whole_machine = false;  // another host may have fewer cores
  const int count = narrow<int>(hosts.size());
  auto command =
      rank_command({.ranks = count, .command = {"true"}, .threads = 1, .hosts = hosts}, unbound);
  // The job's own step has taken the memory, and may not have given it back.
  if (facts.launcher == Launcher::srun)
    command.argv.insert(command.argv.begin() + 1, {"--overlap", "--mem=0"});
  return command;
}

std::set<std::string> find_silent_hosts(const std::vector<Host>& hosts, const MachineFacts& facts) {
  const auto ask = [&](const std::vector<Host>& some) {
    return probe(trial_command(some, facts), longest_trial).status;
  };
  if (hosts.empty() || ask(hosts) == 0) return {};
  constexpr std::size_t most_at_once = 16;
  std::set<std::string> silent;
  std::vector<Host> refused;
  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> threads;
  while (threads.size() < std::min(most_at_once, hosts.size())) {
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < hosts.size(); i = next++) {
        const auto status = ask({hosts[i]});
        if (status == 0) continue;
        const std::scoped_lock lock(mutex);
        silent.insert(hosts[i].name);
        if (status) refused.push_back(hosts[i]);
      }
    });
  }
  threads.clear();
  // A launcher may have failed because others began and ended beside it.
  const Stopwatch watch;
  for (const Host& host : refused) {
    if (watch.seconds() < most_seconds_to_ask_again && ask({host}) == 0) silent.erase(host.name);
  }
  return silent;
}

}  // namespace kolo
