#pragma once

#include <cstdint>
#include <memory>

#include "comm/mpi/mpi_keeping.h"
#include "comm/transfers/transfer_line.h"

namespace kolo {

// By messages of MPI's, between nodes, and where ranks share no memory. Notes have a tag of their
// own, bytes one of their transfer's, so that transfers don't wait for each other. `objects` are
// the group's, which the job keeps.
[[nodiscard]] std::shared_ptr<TransferLine> make_mpi_line(MpiObjects& objects,
                                                          std::int64_t largest_count,
                                                          MpiKeeping& keeping);

}  // namespace kolo
