#pragma once

#include <memory>

#include "comm/executor.h"
#include "comm/mpi/mpi_keeping.h"
#include "kolo/comm/communicator.h"
#include "kolo/comm/mpi.h"

namespace kolo {

// The options with what environment variables say in place of what they hold: see kolo/comm/mpi.h.
[[nodiscard]] MpiOptions with_environment(MpiOptions options);

// A communicator of MPI's ranks, and what it has from MPI.
struct MpiJob {
  Communicator communicator;
  std::shared_ptr<Executor> executor;  // the communicator's
  std::shared_ptr<MpiKeeping> keeping;
};

// Of all ranks of a group, with rank 0's options where they count on all; the group is the job's
// from here on, also where this throws. `rules`: their level is this rank's, and becomes the lowest
// of all. Collective.
[[nodiscard]] MpiJob make_mpi_job(std::shared_ptr<const MpiRuntime> runtime, const MpiGroup& group,
                                  const MpiOptions& options, MpiRules rules);

}  // namespace kolo
