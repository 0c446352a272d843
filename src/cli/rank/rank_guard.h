#pragma once

#include <functional>

#include "kolo/comm/communicator.h"

namespace kolo {

// Runs a rank's part of a job. An exception ends the job on all ranks: its message is printed once,
// by the rank that threw, and under MPI the call does not return; the echoes on ranks whose
// collectives fail because of it are not printed. With one rank the exception is simply passed on.
[[nodiscard]] int run_guarded(const Communicator& communicator, const std::function<int()>& body);

}  // namespace kolo
