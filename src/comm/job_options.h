#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kolo/comm/mpi.h"

// Options of a job: environment variables, and rank 0's on all ranks.
namespace kolo {

// Overrules options by environment variables: see kolo/comm/mpi.h.
[[nodiscard]] MpiOptions with_environment(MpiOptions options);

// Broadcasts rank 0's bytes, before the ranks have a communicator. Collective.
using BroadcastBytes = std::function<void(std::span<std::byte>)>;

// Replaces options that decide which collectives the ranks do, and how, by rank 0's. Collective.
[[nodiscard]] MpiOptions with_options_of_rank_0(const BroadcastBytes& broadcast, MpiOptions own);

// Node of each rank, where consecutive ranks are pretended to be on nodes of these sizes (none: all
// are on one). Error where the nodes hold more or fewer ranks.
[[nodiscard]] std::vector<int> pretended_nodes(int ranks, const std::vector<int>& ranks_on_nodes);

}  // namespace kolo
