#pragma once

#include <cstdint>
#include <memory>

#ifdef KOLO_WITHOUT_MPI
#error \
    "this kolo was built without MPI, and a session is of a program with MPI: build kolo with KOLO_MPI=ON"
#endif

// MPI's C interface, without the C++ one that MPI-3 removed and some versions still bring.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "kolo/comm/communicator.h"
#include "kolo/comm/mpi.h"

// kolo inside a program that has an MPI of its own, for example a simulation.
namespace kolo {

// Consequence of a failed rank: its process ends, an exception leaves it while others wait, or
// the watch's limit has passed.
enum class OnFailure : std::uint8_t {
  // The session is broken: on all ranks whoever waits in it, and every later call, gets a
  // CommunicationError that names who failed and how. No process is ended.
  error,
  // MPI_Abort() on kolo's communicator of the session's ranks. The standard has it end those ranks;
  // Open MPI and MPICH end the whole job, also ranks outside of the session.
  abort
};

// Options fit for a program that computes for a long time between its calls: the watch warns after
// two hours and has no limit.
[[nodiscard]] MpiOptions host_options();

struct SessionOptions {
  // thread_level is not asked for: what the program has been granted counts. Environment variables
  // overrule the others, see mpi_communicator().
  MpiOptions mpi = host_options();
  OnFailure on_failure = OnFailure::error;  // rank 0's counts on all ranks
};

// Part of kolo in some ranks of a program with an MPI of its own. Several may live at once, on
// overlapping communicators too; ranks are those of the session's, in all messages.
//
// kolo neither initializes nor finalizes MPI here, calls nothing on MPI_COMM_WORLD, and leaves the
// communicator that it was given as it is: error handler, attributes, pending messages.
//
// Threads: MPI is called by the thread that calls kolo, inside that call; with thread level
// `multiple` by threads of kolo's own as well, at any time. Where all ranks share the memory of one
// node collectives, transfers, sets and allocations make no call of MPI's, and kolo's threads work
// in the background under each level (capabilities().asynchronous and concurrent). With `single`
// and `funneled` all calls are the main thread's, with less than `multiple` no two threads may be
// in kolo or MPI at once, unless kolo makes no call of MPI there.
//
// The ranks of a node know in a second what breaks a session, and the others when they wait for one
// of those. A rank that shares memory with no other is missed at the watch's limit, or by the
// launcher; so is, between nodes and with less than `multiple`, one that has let go of its handles.
// initialize(), and making a set of ranks over several nodes, wait as MPI does; initialize() says
// so after a minute, or the watch's warning time if that is shorter.
class Session {
 public:
  Session(Session&& other) noexcept;
  // This session's handle goes, as in its destructor.
  Session& operator=(Session&& other) noexcept;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Never communicates. Without finalize() what the session has from MPI is not given back before
  // MPI_Finalize; its handles go on to work till then.
  ~Session();

  // StateError after finalize(), and after MPI_Finalize. Copies mean the same group.
  [[nodiscard]] const Communicator& communicator() const;

  // The end, on all ranks together, before MPI_Finalize. Pending collectives are finished,
  // transfers that nobody has waited for fail. Then kolo's threads end, and all that the session
  // has from MPI and the system is given back; later calls are StateErrors. A second call does
  // nothing.
  //
  // A broken session ends locally, and leaves MPI's objects to MPI; so does one that another rank
  // has left, which is a CommunicationError when all is done. Where another rank calls
  // something else it is an Error on all ranks, and the session goes on.
  void finalize();
  [[nodiscard]] bool is_finalized() const;

 private:
  struct State;
  friend Session initialize(MPI_Comm communicator, const SessionOptions& options);
  explicit Session(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// A session of the ranks of a communicator, which stays the program's and may go before the
// session. Collective. StateError where MPI is not initialized, or finalized, or where this is not
// the main thread and MPI's thread level allows no other; InputError where the MPI of this process
// is of another kind than kolo's, for MPI_COMM_NULL and inter-communicators, and what
// mpi_communicator() refuses.
[[nodiscard]] Session initialize(MPI_Comm communicator, const SessionOptions& options = {});

}  // namespace kolo
