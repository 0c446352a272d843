#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "handles.h"
#include "kolo/base/enum_names.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/kolo.h"
#include "status.h"

// kolo_initialize, kolo_initialize_f, kolo_finalize.

namespace kolo::bindings {

namespace {

struct Options {
  SessionOptions session;
  int threads = 0;  // that calls compute with; 0: as the program's OpenMP
};

constexpr std::string_view accepted_options =
    "warn_after=SECONDS, timeout=SECONDS, on_failure=error or abort, threads=N, "
    "shared_memory=auto, "
    "on or off, checked=on or off";

[[noreturn]] void refuse(const std::string& word, const std::string& expected) {
  throw InputError("options: " + quote(word) + ": expected " + expected);
}

std::chrono::duration<double> seconds(const std::string& word, std::string_view value) {
  const auto number = parse_number<double>(value);
  if (!number || *number < 0) refuse(word, "seconds, 0 (never) or more");
  return std::chrono::duration<double>(*number);
}

// Value of a word that has a list of choices.
template <typename E, std::size_t n>
E choice(const std::string& word, std::string_view value,
         const std::array<EnumName<E>, n>& choices) {
  std::vector<std::string> names;
  for (const auto& each : choices) {
    if (each.name == value) return each.value;
    names.emplace_back(each.name);
  }
  refuse(word, join(names, " or "));
}

void read_word(const std::string& word, Options& options) {
  const auto equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const std::string_view value =
      equals == std::string::npos ? std::string_view() : std::string_view(word).substr(equals + 1);
  auto& mpi = options.session.mpi;
  if (name == "warn_after") {
    mpi.watch.warning = seconds(word, value);
  } else if (name == "timeout") {
    mpi.watch.limit = seconds(word, value);
  } else if (name == "on_failure") {
    options.session.on_failure =
        choice(word, value,
               std::to_array<EnumName<OnFailure>>(
                   {{OnFailure::error, "error"}, {OnFailure::abort, "abort"}}));
  } else if (name == "threads") {
    const auto number = parse_number<int>(value);
    if (!number || *number < 1) refuse(word, "a number of threads, at least 1");
    options.threads = *number;
  } else if (name == "shared_memory") {
    mpi.shared_memory = choice(word, value, enum_names(SharedMemory{}));
  } else if (name == "checked") {
    mpi.checked =
        choice(word, value, std::to_array<EnumName<bool>>({{true, "on"}, {false, "off"}}));
  } else {
    refuse(word, std::string(accepted_options));
  }
}

// Options of kolo_initialize(): "warn_after=600 on_failure=abort"; null for defaults. InputError
// says what is accepted.
Options options_from_text(const char* text) {
  Options options;
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string word; words >> word;) read_word(word, options);
  return options;
}

}  // namespace

Handles& handles() {
  alignas(Handles) static std::byte storage[sizeof(Handles)];
  static Handles* const made = std::construct_at(reinterpret_cast<Handles*>(&storage));
  return *made;
}

void require_mpi() {
  int is = 0;
  if (MPI_Initialized(&is) != MPI_SUCCESS || is == 0)
    throw StateError("MPI is not initialized; call MPI_Init or MPI_Init_thread before");
  if (MPI_Finalized(&is) != MPI_SUCCESS || is != 0)
    throw StateError("MPI was finalized; kolo's calls come before MPI_Finalize");
}

void meet(const Call& call, const Communicator& communicator, const std::exception_ptr& problem) {
  const int none = communicator.size();
  const int mine = problem ? communicator.rank() : none;
  const int first = all_reduce_value(communicator, mine, ReduceOp::min);
  if (problem) std::rethrow_exception(problem);
  if (first < none)
    throw CommunicationError("rank " + std::to_string(first) + " could not go on in " + call.name +
                             "; its own message says why");
}

}  // namespace kolo::bindings

using namespace kolo::bindings;

namespace {

// Makes a session even if this rank's arguments are wrong, so that the other ranks learn of it.
kolo_session initialize(Call& call, MPI_Comm communicator, const char* text,
                        const kolo_session* given) {
  require_mpi();
  Options options;
  std::exception_ptr problem;
  try {
    if (given == nullptr)
      throw kolo::InputError("session is null; expected the address of a kolo_session");
    options = options_from_text(text);
  } catch (const kolo::Error&) {
    problem = std::current_exception();
  }
  auto session = kolo::initialize(communicator, options.session);
  call.rank = session.communicator().rank();
  try {
    meet(call, session.communicator(), problem);
  } catch (...) {
    session.finalize();
    throw;
  }
  const int threads = options.threads;
  return reinterpret_cast<kolo_session>(handles().sessions.add(
      std::make_shared<LivingSession>(LivingSession{std::move(session), call.rank, threads})));
}

}  // namespace

extern "C" {

int kolo_initialize(MPI_Comm communicator, const char* options, kolo_session* session) {
  Call call{"kolo_initialize"};
  return guarded(call, [&] { *session = initialize(call, communicator, options, session); });
}

int kolo_initialize_f(int64_t communicator, const char* options, kolo_session* session) {
  Call call{"kolo_initialize_f"};
  return guarded(call, [&] {
    require_mpi();
    if (!std::in_range<MPI_Fint>(communicator))
      throw kolo::InputError("communicator is " + std::to_string(communicator) +
                             ", which is none of this MPI's integers");
    *session =
        initialize(call, MPI_Comm_f2c(static_cast<MPI_Fint>(communicator)), options, session);
  });
}

int kolo_finalize(kolo_session session) {
  Call call{"kolo_finalize"};
  return guarded(call, [&] {
    auto& table = handles();
    const auto living =
        table.sessions.take(number_of(session), "it was finalized by kolo_finalize");
    call.rank = living->rank;
    // Networks end before what they communicate with.
    (void)table.networks.take_all(
        [&](const LivingNetwork& network) { return network.session == living; },
        "its session was finalized by kolo_finalize");
    require_mpi();
    living->session.finalize();
  });
}

}  // extern "C"
