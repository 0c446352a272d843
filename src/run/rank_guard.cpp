#include "run/rank_guard.h"

#include <algorithm>
#include <csignal>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "base/file_failure.h"
#include "kolo/base/machine.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

void end_job_in_turn(const Communicator& communicator, const std::string& message, int status) {
  communicator.announce_abort();
  let_lower_ranks_speak(communicator.rank());
  end_job(communicator, message, status);
}

}  // namespace

int exit_status_of(const std::exception& error) {
  const auto* const of_files = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  const bool is_of_input = dynamic_cast<const InputError*>(&error) != nullptr ||
                           (of_files != nullptr && is_of_the_name(*of_files));
  return is_of_input ? exit_wrong_input : exit_failed;
}

std::string message_of(const std::exception& error) {
  if (const auto* const of_files = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return describe(*of_files);
  std::string text = error.what();
  const bool wants_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                            text.find("can't allocate memory") != std::string::npos;
  if (wants_memory) return "there is not enough memory for what was asked for";
  // LibTorch adds the place that threw, and addresses.
  for (const auto* const addresses : {"\nException raised from", "\nframe #0:"})
    text.resize(std::min(text.size(), text.find(addresses)));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string describe_rank(int rank) {
  return fmt::format("rank {} (on {})", rank, host_name());
}

std::chrono::milliseconds head_start_of_lower_ranks(int rank) {
  return std::chrono::milliseconds(rank == 0 ? 0 : 1000 + 200 * std::min(rank, 20));
}

void let_lower_ranks_speak(int rank) {
  if (rank == 0) return;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_DFL);
  std::this_thread::sleep_for(head_start_of_lower_ranks(rank));
}

void end_job(const Communicator& communicator, const std::string& message, int status) {
  communicator.announce_abort();
  complain(fmt::format("{}: {}", describe_rank(communicator.rank()), message));
  communicator.abort(status);
}

int run_guarded(const Communicator& communicator, const std::function<int()>& body) {
  try {
    return body();
  } catch (const CommunicationError&) {
    communicator.abort(exit_failed);
    throw;
  } catch (const std::exception& error) {
    if (communicator.size() > 1)
      end_job_in_turn(communicator, message_of(error), exit_status_of(error));
    throw;
  } catch (...) {
    if (communicator.size() > 1)
      end_job_in_turn(communicator, "an exception of unknown type", exit_failed);
    throw;
  }
}

}  // namespace kolo
