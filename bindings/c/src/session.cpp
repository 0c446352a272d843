#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "handles.h"
#include "kolo/kolo.h"
#include "meeting.h"
#include "options.h"
#include "status.h"

// kolo_initialize, kolo_initialize_f, kolo_finalize.

using namespace kolo::bindings;

namespace {

// A rank whose arguments are wrong makes a session all the same, so that the others learn of it.
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
