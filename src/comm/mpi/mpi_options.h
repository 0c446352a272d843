#pragma once

#include "comm/mpi/mpi_group.h"
#include "kolo/comm/mpi.h"

namespace kolo {

// The options with rank 0's values in place of all that decides which collectives the ranks do, or
// how. Where a rank's own differ, it is said on stderr, once for each of them. Collective.
[[nodiscard]] MpiOptions with_options_of_rank_0(const MpiGroup& world, const MpiOptions& own);

}  // namespace kolo
