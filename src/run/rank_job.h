#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/run/launch_environment.h"

namespace kolo {

// Something that has to be the same on all ranks, and what to do when it isn't.
struct RankFact {
  std::string name, value;
};

// Who prepares.
struct RankPreparation {
  int rank = 0, ranks = 1;  // of the job
};

// A rank's part of a job, in the order in which it is done.
struct RankJob {
  // Reads what the user has given. The communication settings are part of that.
  std::function<CommunicationConfig()> configure;
  // Makes everything that can be wrong: data, network, folders. Returns what has to be the same on
  // all ranks.
  std::function<std::vector<RankFact>(const RankPreparation&)> prepare;
  // Reads what the ranks of a node keep in memory together (load_data()), when all are prepared.
  // What fails here ends all as in prepare(). None: nothing.
  std::function<void(const Communicator&)> load = {};
  // Returns the exit status.
  std::function<int(const Communicator&)> run;
  // Of a program that has one already; none: the ranks that a launcher has started.
  std::optional<Communicator> communicator = {};
};

// Does a rank's part, and returns its exit status. Whatever fails on any rank ends all with the
// same status, 2 for an InputError, otherwise 1, and is said once: before run() by rank 0 for all,
// or by the lowest rank that failed where others still prepare two seconds later; during run() see
// run_guarded(). A process that is alone gets the exception.
[[nodiscard]] int run_rank_job(const LaunchEnvironment& environment, const RankJob& job);

}  // namespace kolo
