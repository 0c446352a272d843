#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kolo/run/launch_ranks.h"
#include "run/launch/launcher_output.h"

namespace kolo {

// Where the ranks of the next attempt run, and how many they are.
struct RankPlaces {
  int ranks = 0;
  std::vector<Host> hosts;  // empty: wherever the launcher starts them by itself
};

// Nodes of a job, and which have failed: a rank was ended from outside, the launcher lost it, or it
// does not answer. One that fails twice is left out from then on, one that does not answer until it
// does. Of a job on one node nothing is a node's failure.
class JobNodes {
 public:
  // Each with as many slots as ranks may run there.
  explicit JobNodes(std::vector<Host> hosts = {}) : hosts_(std::move(hosts)) {}

  [[nodiscard]] bool are_several() const { return hosts_.size() > 1; }

  // Those that the next attempt may be started on, in which a node has to answer.
  [[nodiscard]] std::vector<Host> candidates() const;

  // After an attempt has failed. `silent`: those of the candidates that don't answer now. Returns
  // whether a node has failed.
  bool note_failure(const HostsInTrouble& trouble, const std::set<std::string>& silent);

  // The nodes that are left: `wanted` ranks where they fit, else as many as fit and are accepted,
  // but at least `least`. Fewer than one rank: none.
  [[nodiscard]] RankPlaces places(int wanted, int least,
                                  const std::function<bool(int ranks)>& accepts) const;
  [[nodiscard]] std::vector<Host> left() const;

  // "n2 (does not answer), n3 (has failed twice)"; empty: none is left out.
  [[nodiscard]] std::string describe_left_out() const;

 private:
  // The node that a launcher calls so; empty: none.
  [[nodiscard]] std::string known_as(const std::string& name) const;
  [[nodiscard]] bool is_excluded(const std::string& name) const;

  std::vector<Host> hosts_;
  std::map<std::string, int> failures_;
  std::set<std::string> silent_;
};

// The nodes of the job that `request` starts ranks in: its own hosts, or those of the scheduler's
// allocation, with as many slots as were asked for there, at least those that the first attempt
// takes. None where this machine is the only one, or nobody knows.
[[nodiscard]] std::vector<Host> nodes_of_job(const LaunchRequest& request,
                                             const MachineFacts& facts);

// Starts `true` once on each of these hosts, as ranks are started.
[[nodiscard]] RankCommand trial_command(std::vector<Host> hosts, const MachineFacts& facts);

// Hosts on which that can't be started. Takes about a second where all answer, up to 20 where some
// don't.
[[nodiscard]] std::set<std::string> find_silent_hosts(const std::vector<Host>& hosts,
                                                      const MachineFacts& facts);

}  // namespace kolo
