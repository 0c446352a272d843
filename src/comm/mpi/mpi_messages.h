#pragma once

#include <cstdint>
#include <memory>

#include "comm/mpi/mpi_keeping.h"
#include "comm/transfers/transfer_line.h"
#include "kolo/comm/backend.h"

namespace kolo {

// Line by messages of MPI's, between nodes and where ranks share no memory. Notes have a tag of
// their own and bytes one of their transfer's, so that transfers don't wait for each other.
// `objects` are the group's, kept by the job.
[[nodiscard]] std::shared_ptr<TransferLine> make_mpi_line(MpiObjects& objects,
                                                          std::int64_t largest_count,
                                                          MpiKeeping& keeping);

// The watch's messages, on objects.statuses. The job keeps both: a message to a rank that never
// looks again stays pending, and can be neither awaited nor taken back. Needs the thread level
// `multiple`.
[[nodiscard]] std::unique_ptr<StatusExchange> make_status_exchange(MpiObjects& objects);

// Takes messages that were sent to this rank and are not taken yet, so that nobody finds them in a
// later communicator to which MPI gives the same number. Collective, when nobody sends any more.
void take_last_statuses(MpiObjects& objects);

}  // namespace kolo
