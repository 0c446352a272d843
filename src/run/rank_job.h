#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/run/launch_ranks.h"

namespace kolo {

// The status that a program ends with because of an exception: 2 for an InputError, and for a
// file's name that the system refuses, otherwise 1.
[[nodiscard]] int exit_status_of(const std::exception& error);

// What an exception has to say to a user: its message, of LibTorch's without the addresses that it
// puts after it, of the standard library's for files with what to do. All that comes for want of
// memory says the same.
[[nodiscard]] std::string message_of(const std::exception& error);

// "rank 1 (on node2)", of this process.
[[nodiscard]] std::string describe_rank(int rank);

// Waits until lower ranks that fail alike have said so and ended the job. Launchers end ranks with
// SIGTERM first, which does so at once from now on.
void let_lower_ranks_speak(int rank);

// Does work that has begun, in which nothing is a user's mistake any more (exit_wrong_input):
// what would be one becomes an Error of the same words.
template <typename Work>
auto once_begun(const Work& work) {
  try {
    return work();
  } catch (const InputError& error) {
    throw Error(error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(message_of(error));
  }
}

// Runs a rank's part of a job. An exception ends the job on all ranks, with exit_status_of() it;
// under MPI the call does not return. Its message is printed once, with rank and host: where
// several ranks fail alike the lowest speaks. With one rank the exception is passed on.
[[nodiscard]] int run_guarded(const Communicator& communicator, const std::function<int()>& body);

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
