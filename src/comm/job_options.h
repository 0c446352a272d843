#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "kolo/comm/mpi.h"

// The options of a job, of which those that decide how it works are rank 0's on all ranks.
namespace kolo {

// The options with what environment variables say in place of what they hold: see kolo/comm/mpi.h.
[[nodiscard]] MpiOptions with_environment(MpiOptions options);

// Calls that the ranks of a job make together before they have a communicator.
struct FirstMeeting {
  int rank = 0;
  std::function<void(std::span<std::byte>)> broadcast;  // rank 0's bytes
  std::function<void(std::span<int>)> take_least;       // of all ranks' values, each by itself
};

// The options with rank 0's values in place of all that decides which collectives the ranks do, or
// how. Where a rank's own differ, it is said on stderr, once for each of them. Collective.
[[nodiscard]] MpiOptions with_options_of_rank_0(const FirstMeeting& meeting, const MpiOptions& own);

}  // namespace kolo
