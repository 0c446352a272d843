#include <algorithm>
#include <ranges>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/study/sweep.h"

namespace kolo {

namespace {

// Number of trials at once: as requested, else as many as there is room for.
int count_of(const SiteOptions& options, int comfortable, int most, std::string_view of_what) {
  if (options.at_once == 0) return std::max(1, comfortable);
  if (options.at_once <= std::max(1, most) || options.oversubscribe) return options.at_once;
  throw InputError(
      fmt::format("--trials-at-once {}: {} give room for {} of {} at once; ask for at most so "
                  "many, or add --oversubscribe to have trials share them (slow)",
                  options.at_once, of_what, counted(std::max(1, most), "trial"),
                  counted(options.ranks, "rank")));
}

// Equal parts without the remainder: trials with more processors could not be compared.
template <typename T>
std::vector<std::vector<T>> equal_groups(const std::vector<T>& all, int count) {
  const auto size = all.size() / static_cast<std::size_t>(count);
  std::vector<std::vector<T>> parts;
  for (auto begin = all.begin(); std::ssize(parts) < count; begin += static_cast<long>(size))
    parts.emplace_back(begin, begin + static_cast<long>(size));
  return parts;
}

std::vector<int> flat(const std::vector<std::vector<int>>& lists) {
  const auto all = lists | std::views::join;
  return {all.begin(), all.end()};
}

// Binds trials to whole cores, else to hardware threads; leaves them unbound if there are too few.
void bind(std::vector<TrialSite>& sites, const std::vector<std::vector<int>>& cores, int ranks) {
  const int count = narrow<int>(sites.size());
  if (count == 1) return;
  const auto is_enough = [&](std::size_t all) {
    return all / static_cast<std::size_t>(count) >= static_cast<std::size_t>(ranks);
  };
  const auto threads = flat(cores);
  if (is_enough(cores.size())) {
    const auto parts = equal_groups(cores, count);
    for (std::size_t i = 0; i < sites.size(); ++i) sites[i].cpus = flat(parts[i]);
  } else if (is_enough(threads.size())) {
    const auto parts = equal_groups(threads, count);
    for (std::size_t i = 0; i < sites.size(); ++i) sites[i].cpus = parts[i];
  }
}

std::vector<TrialSite> sites_here(const MachineFacts& machine,
                                  const std::vector<std::vector<int>>& cores,
                                  const SiteOptions& options) {
  const int gpus = narrow<int>(options.gpus.size());
  const int count = gpus > 0 ? count_of(options, gpus / options.ranks, gpus / options.ranks,
                                        "this machine's GPUs")
                             : count_of(options, machine.cores / options.ranks,
                                        machine.cpus / options.ranks, "this machine's processors");
  std::vector<TrialSite> sites(static_cast<std::size_t>(count),
                               {.cores = std::max(1, machine.cores / count)});
  bind(sites, cores, options.ranks);
  if (gpus / count < options.ranks) return sites;
  const auto parts = equal_groups(options.gpus, count);
  for (std::size_t i = 0; i < sites.size(); ++i)
    sites[i].environment.emplace_back("CUDA_VISIBLE_DEVICES", join(parts[i], ","));
  return sites;
}

// Each trial has hosts of its own: two mpiruns on one would both begin with its first core.
std::vector<TrialSite> sites_on_hosts(const MachineFacts& machine, const SiteOptions& options) {
  const auto& hosts = machine.job_hosts;
  const int slots = std::max(1, std::ranges::min(hosts, {}, &Host::slots).slots);
  const int hosts_of_trial = divide_up(options.ranks, slots);
  const int room = narrow<int>(hosts.size()) / hosts_of_trial;
  SiteOptions strict = options;
  strict.oversubscribe = false;
  const int count = count_of(strict, room, room, "the hosts of the job");
  if (room == 0) return {TrialSite{}};  // the whole job; its launcher decides
  std::vector<TrialSite> sites;
  for (int i = 0; i < count; ++i) {
    const auto begin = hosts.begin() + static_cast<long>(i) * hosts_of_trial;
    const auto own = spread_evenly({begin, begin + hosts_of_trial}, options.ranks);
    sites.push_back({.arguments = {"--hosts", to_string(own)}});
  }
  return sites;
}

// Slurm chooses the processors. A step gets those of its tasks alone (--exact), and a share of the
// memory; otherwise it would wait for the step before.
std::vector<TrialSite> sites_in_slurm(const MachineFacts& machine, const SiteOptions& options) {
  const int nodes = std::max(1, machine.number_in("SLURM_JOB_NUM_NODES"));
  const int cpus = machine.number_in("SLURM_CPUS_ON_NODE");
  const int cpus_on_node = std::max(1, cpus > 0 ? cpus : machine.cores);
  const int given = machine.number_in("SLURM_NTASKS");
  const int tasks = given > 0 ? given : checked_multiply(nodes, cpus_on_node);
  const int room = tasks / options.ranks;
  const int count = count_of(options, room, room, "the tasks of the job");
  const int tasks_on_node = std::max(1, tasks / nodes);
  const auto nodes_of_trial =
      fmt::format("{}", std::min(nodes, divide_up(options.ranks, tasks_on_node)));
  const int trials_on_node = std::max(1, divide_up(count, nodes));
  TrialSite place{.cores = std::max(1, cpus_on_node / trials_on_node),
                  .environment = {{"SLURM_EXACT", "1"},
                                  {"SLURM_JOB_NUM_NODES", nodes_of_trial},
                                  {"SLURM_NNODES", nodes_of_trial}}};
  if (const int memory = machine.number_in("SLURM_MEM_PER_NODE"))
    place.environment.emplace_back("SLURM_MEM_PER_NODE", std::to_string(memory / trials_on_node));
  return std::vector<TrialSite>(static_cast<std::size_t>(count), place);
}

}  // namespace

std::vector<TrialSite> trial_sites(const MachineFacts& machine,
                                   const std::vector<std::vector<int>>& cores,
                                   const SiteOptions& options) {
  if (machine.launcher == Launcher::srun) return sites_in_slurm(machine, options);
  if (!machine.job_hosts.empty()) return sites_on_hosts(machine, options);
  return sites_here(machine, cores, options);
}

}  // namespace kolo
