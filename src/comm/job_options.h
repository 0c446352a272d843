#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kolo/comm/mpi.h"

// The options of a job, of which those that decide how it works are rank 0's on all ranks.
namespace kolo {

// The options with what environment variables say in place of what they hold: see kolo/comm/mpi.h.
[[nodiscard]] MpiOptions with_environment(MpiOptions options);

// Makes bytes rank 0's, before the ranks have a communicator. Collective.
using BroadcastBytes = std::function<void(std::span<std::byte>)>;

// The options with rank 0's values in place of all that decides which collectives the ranks do, or
// how. Collective.
[[nodiscard]] MpiOptions with_options_of_rank_0(const BroadcastBytes& broadcast, MpiOptions own);

// The node of each rank, where consecutive ranks are pretended to be on nodes of these sizes; none
// given: all are on one. Error where the nodes hold more or fewer ranks.
[[nodiscard]] std::vector<int> pretended_nodes(int ranks, const std::vector<int>& ranks_on_nodes);

}  // namespace kolo
