#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kolo/run/launch_ranks.h"
#include "run/launch/launcher_output.h"

namespace kolo {

// Number and hosts of the next attempt's ranks.
struct NextRanks {
  int ranks = 0;
  std::vector<Host> hosts;  // empty: the launcher chooses
};

// Nodes of a job, and their failures: a rank was ended from outside, the launcher lost the node, or
// it doesn't answer. A node that fails twice is left out from then on, one that doesn't answer
// until it does. A job's only node never fails.
class JobNodes {
 public:
  // Slots: ranks that may run there.
  explicit JobNodes(std::vector<Host> hosts = {}) : hosts_(std::move(hosts)) {}

  [[nodiscard]] bool are_several() const { return hosts_.size() > 1; }

  // Nodes for the next attempt, if they answer.
  [[nodiscard]] std::vector<Host> candidates() const;

  // Notes that an attempt has failed. `silent`: candidates that don't answer now. Returns whether a
  // node has failed.
  bool note_failure(const HostsInTrouble& trouble, const std::set<std::string>& silent);

  // Places `wanted` ranks on the nodes that are left, else as many as fit and are accepted, but at
  // least `least`; 0 ranks: that is impossible.
  [[nodiscard]] NextRanks next_ranks(int wanted, int least,
                                     const std::function<bool(int ranks)>& accepts) const;
  [[nodiscard]] std::vector<Host> left() const;

  // Describes them: "n2 (does not answer), n3 (has failed twice)"; empty: none is left out.
  [[nodiscard]] std::string describe_left_out() const;

 private:
  // Node to which a launcher gives this name; empty: none.
  [[nodiscard]] std::string known_as(const std::string& name) const;
  [[nodiscard]] bool is_excluded(const std::string& name) const;

  std::vector<Host> hosts_;
  std::map<std::string, int> failures_;
  std::set<std::string> silent_;
};

// Nodes of the job that `request` starts ranks in: its own hosts, or the scheduler's, with at least
// the slots that the first attempt takes. None where this machine is the only one, or they are
// unknown.
[[nodiscard]] std::vector<Host> nodes_of_job(const LaunchRequest& request,
                                             const MachineFacts& facts);

// Starts `true` once on each of these hosts, as ranks are started.
[[nodiscard]] RankCommand trial_command(std::vector<Host> hosts, const MachineFacts& facts);

// Hosts on which trial_command() fails, alone and, unless it takes too long, once more with no
// other beside it. Takes about a second where all answer, up to 40 where some don't.
[[nodiscard]] std::set<std::string> find_silent_hosts(const std::vector<Host>& hosts,
                                                      const MachineFacts& facts);

}  // namespace kolo
