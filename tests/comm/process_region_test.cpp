// Joining a job of processes: each rank once, and only processes that were started as ranks.
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/processes/process_region.h"
#include "kolo/base/error.h"
#include "kolo/comm/processes.h"
#include "support/expect_end.h"
#include "support/process.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// Forks a process that ends with the function's status.
pid_t start(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return child;
}

int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void become(const ProcessRegion& region, int rank) {
  for (const auto& [name, value] : region.environment(rank))
    ::setenv(name.c_str(), value.c_str(), 1);
}

// Message of the Error with which joining fails; empty: the process has joined.
template <typename Kind>
std::string refusal() {
  try {
    (void)process_communicator();
  } catch (const Kind& error) {
    return error.what();
  }
  return {};
}

bool is_refused_as_second(int rank) {
  const auto said = refusal<StateError>();
  return says(said, {"comm: process ", " has joined the job as rank " + std::to_string(rank) +
                                           " already; of a rank's processes one alone"});
}

TEST(ProcessOfARank, IsTheOnlyOneThatJoins) {
  const auto result = run_in_fork([] {
    const ProcessRegion region(2);
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.push_back(start([&] {
        become(region, rank);
        const auto communicator = process_communicator();
        communicator.barrier();
        // A child of a rank's process can't join.
        const int status = status_of(start([&] { return is_refused_as_second(rank) ? 0 : 1; }));
        communicator.barrier();
        return status;
      }));
    }
    int failed = 0;
    for (const pid_t rank : ranks) failed += status_of(rank);
    // Nor can another process when the rank's own has ended.
    become(region, 1);
    return failed + (is_refused_as_second(1) ? 0 : 10);
  });
  expect_end(result, 0);
}

TEST(ProcessThatIsNoRank, IsRefused) {
  for (const char* const missing : {"", process_rank_variable, process_ranks_variable}) {
    const auto result = run_in_fork([&] {
      const ProcessRegion region(2);
      if (*missing != '\0') {
        become(region, 0);
        ::unsetenv(missing);
      }
      const bool is_right =
          says(refusal<InputError>(),
               {"comm: kolo has not started this process as one of several ranks; "
                "start it by kolo run --launcher processes -n RANKS PROGRAM"});
      return is_right ? 0 : 1;
    });
    EXPECT_EQ(result.exit_code, 0) << missing;
  }
}

TEST(ProcessWhoseJobHasEnded, IsTold) {
  const auto result = run_in_fork([] {
    become(ProcessRegion(2), 1);
    const bool is_right =
        says(refusal<Error>(), {"comm: rank 1 can't reach the memory that the ranks share, ",
                                "the process that started it has ended"});
    return is_right ? 0 : 1;
  });
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

}  // namespace
}  // namespace kolo::testing
