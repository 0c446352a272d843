#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>

#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"
#include "kolo/run/launch_ranks.h"

namespace kolo {

// The status that a program ends with because of an exception: 2 for an InputError, and for a
// file's name that the system refuses, otherwise 1.
[[nodiscard]] int exit_status_of(const std::exception& error);

// What an exception has to say to a user: its message, of LibTorch's without the addresses that it
// puts after it, of the standard library's for files with what to do. All that comes for want of
// memory says the same.
[[nodiscard]] std::string message_of(const std::exception& error);

// "rank 1 (on node2)", of this process.
[[nodiscard]] std::string describe_rank(int rank);

// Says that this rank (communicator's) has failed, and ends the job on all: under MPI the call does
// not return.
void end_job(const Communicator& communicator, const std::string& message, int status);

// How long a rank that has failed waits for lower ones that fail alike to say so and end the job.
[[nodiscard]] std::chrono::milliseconds head_start_of_lower_ranks(int rank);
// Waits that long. Launchers end ranks with SIGTERM first, which does so at once from now on.
void let_lower_ranks_speak(int rank);

// Does work that has begun, in which nothing is a user's mistake any more (exit_wrong_input):
// what would be one becomes an Error of the same words.
template <typename Work>
auto once_begun(const Work& work) {
  try {
    return work();
  } catch (const InputError& error) {
    throw Error(error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(message_of(error));
  }
}

// Runs a rank's part of a job. An exception ends the job on all ranks, with exit_status_of() it;
// under MPI the call does not return. Its message is printed once, with rank and host: where
// several ranks fail alike the lowest speaks. With one rank the exception is passed on.
[[nodiscard]] int run_guarded(const Communicator& communicator, const std::function<int()>& body);

}  // namespace kolo
