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

// Exit status after an exception: 2 for an InputError, and for a file's name that the system
// refuses, otherwise 1.
[[nodiscard]] int exit_status_of(const std::exception& error);

// Message of an exception for users: LibTorch's without addresses, the standard library's on files
// with advice, and the same words wherever memory is missing.
[[nodiscard]] std::string message_of(const std::exception& error);

// Describes this process: "rank 1 (on node2)".
[[nodiscard]] std::string describe_rank(int rank);

// Waits until lower ranks that fail alike have said so and ended the job. From now on SIGTERM, with
// which launchers begin, ends this process at once.
void let_lower_ranks_speak(int rank);

// Runs work after the job has begun: InputErrors become Errors of the same words, so that the exit
// status is 1, not 2.
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

// Runs a rank's part of a job. An exception ends the job on all ranks with its exit_status_of(),
// under MPI without returning. Its message is printed once, with rank and host, by the lowest of
// the ranks that fail alike. With one rank the exception is passed on.
[[nodiscard]] int run_guarded(const Communicator& communicator, const std::function<int()>& body);

// Value that must be the same on all ranks.
struct RankFact {
  std::string name, value;
};

// Rank that prepares, and the number of ranks.
struct RankPreparation {
  int rank = 0, ranks = 1;
};

// Steps of a rank's part of a job, in their order.
struct RankJob {
  // Reads the configuration, and returns its communication settings.
  std::function<CommunicationConfig()> configure;
  // Makes everything that can be wrong: data, network, folders. Returns facts that all ranks must
  // have alike.
  std::function<std::vector<RankFact>(const RankPreparation&)> prepare;
  // Reads data that the ranks of a node share in memory (load_data()), when all are prepared.
  std::function<void(const Communicator&)> load = {};
  // Returns the exit status.
  std::function<int(const Communicator&)> run;
  // All ranks, where the program has them already; none: those that a launcher has started.
  std::optional<Communicator> communicator = {};
};

// Does a rank's part, and returns its exit status. A failure before run() ends all ranks with the
// same status, 2 for an InputError and otherwise 1, and rank 0 says it once for all; where others
// still prepare two seconds later the lowest rank that failed does. For run() see run_guarded(). A
// process that is alone gets the exception.
[[nodiscard]] int run_rank_job(const LaunchEnvironment& environment, const RankJob& job);

}  // namespace kolo
