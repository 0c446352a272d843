#pragma once

#include <exception>
#include <functional>
#include <string>

#include "kolo/comm/communicator.h"

namespace kolo {

inline constexpr int exit_failed = 1;
inline constexpr int exit_wrong_input = 2;

// What a program ends with because of an exception: 2 for an InputError, otherwise 1.
[[nodiscard]] int exit_status_of(const std::exception& error);

// What an exception has to say to a user: its message, of LibTorch's without the addresses that it
// puts behind it. All that comes for want of memory says the same.
[[nodiscard]] std::string message_of(const std::exception& error);

// "rank 1 (on node2)", of this process.
[[nodiscard]] std::string describe_rank(int rank);

// Runs a rank's part of a job. An exception ends the job on all ranks, with exit_status_of() it:
// its message is printed once, with rank and host, and under MPI the call does not return. Where
// several ranks fail alike the lowest speaks, as those above wait a second, in which they are
// ended. The echoes on ranks whose collectives fail because of it are not printed. With one rank
// the exception is simply passed on.
[[nodiscard]] int run_guarded(const Communicator& communicator, const std::function<int()>& body);

}  // namespace kolo
