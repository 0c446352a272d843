#pragma once

#include <memory>

#include "comm/mpi/mpi_keeping.h"
#include "kolo/comm/backend.h"

namespace kolo {

// The watch's messages, on a communicator of their own, objects.statuses. Both are kept by the job:
// a message to a rank that never looks again stays pending, and can be neither awaited nor taken
// back. Takes the thread level `multiple`.
[[nodiscard]] std::unique_ptr<StatusExchange> make_status_exchange(MpiObjects& objects);

// Takes what has been sent to this rank and is not taken yet, so that nobody finds it in a later
// communicator, to which MPI may give the same number. Collective, when nobody sends any more.
void take_last_statuses(MpiObjects& objects);

}  // namespace kolo
